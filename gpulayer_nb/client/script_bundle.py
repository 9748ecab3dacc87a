"""A script and what it needs from its own folder: the modules it imports from there, and the small files beside it.

Runs in the process that drives a launch. Owns the choice of files; reads, sends nothing.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from gpulayer_nb.errors import UsageError

BESIDE_BYTES = 1024 * 1024  # a bigger file beside a script is data: it belongs on a file system that the workers share
MAX_BYTES = 32 * 1024 * 1024
_SKIPPED = ("__pycache__", "node_modules")


@dataclass(frozen=True)
class ScriptBundle:
    """`files`: SHA-256 by path below `root`, with slashes. `left_out`: files beside the script that are too big to send."""

    root: Path
    script: str
    files: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def read(self, digest: str) -> bytes:
        """The content of a file by its digest."""
        name = next(name for name, known in self.files.items() if known == digest)
        return (self.root / name).read_bytes()


def collect(script: Path) -> ScriptBundle:
    """The bundle of a script.

    Raises:
        UsageError: its modules are too big to send.
    """
    root = script.parent
    modules = _modules(script, root)
    beside = [path for path in sorted(root.iterdir()) if path.is_file() and not path.name.startswith(".")]
    small = [path for path in beside if path.stat().st_size <= BESIDE_BYTES]
    chosen = sorted({script, *modules, *small})
    total = sum(path.stat().st_size for path in chosen)
    if total > MAX_BYTES:
        raise UsageError(
            f"{script.name} and what belongs to it in {root} are {total / 1e6:.0f} MB; at most {MAX_BYTES / 1e6:.0f} are sent to "
            "a worker. Nothing was started. Next: put the script into a folder of its own, and data where all workers read them."
        )
    left_out = tuple(path.name for path in beside if path not in small and path != script and path not in modules)
    return ScriptBundle(root, script.name, {path.relative_to(root).as_posix(): digest_of(path) for path in chosen}, left_out)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _modules(script: Path, root: Path) -> set[Path]:
    """Files below `root` that the script imports, and that those import."""
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        for name in _imported(waiting.pop()):
            for path in _files_of(name, root):
                if path not in found and path != script:
                    found.add(path)
                    waiting.append(path)
    return found


def _imported(path: Path) -> set[str]:
    """First parts of the names that a file imports; relative imports stay inside a package, which is taken whole."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _files_of(name: str, root: Path) -> list[Path]:
    module, package = root / f"{name}.py", root / name
    if package.is_dir():
        return [path for path in sorted(package.rglob("*")) if _belongs(path, root)]
    return [module] if module.is_file() else []


def _belongs(path: Path, root: Path) -> bool:
    parts = path.relative_to(root).parts
    return path.is_file() and not any(part.startswith(".") or part in _SKIPPED for part in parts)
