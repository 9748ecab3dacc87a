"""The user's own modules beside the notebook, as one archive that Python can import from.

Runs in the kernel. Owns which files those are. It is for workers that do not see the notebook's folder; ranks of this machine
import the files themselves.
"""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from gpulayer_nb.errors import ShippingError

MOST_BYTES = 16 << 20  # a folder of sources is smaller; one with a virtual environment in it is not
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the archive of the same files is the same archive


def archive(folder: Path, python_source: str) -> tuple[str, bytes] | None:
    """A name made from the content, and the archive; None if the notebook uses no module of this folder.

    Args:
        folder: the notebook's.
        python_source: the cell; what it imports may not have been imported here.

    Raises:
        ShippingError: they are too big.
    """
    roots = _roots(folder, {*_imported(folder), *_named(python_source)})
    files = sorted({path for root in roots for path in _files_of(root)})
    if not files:
        return None
    size = sum(path.stat().st_size for path in files)
    if size > MOST_BYTES:
        raise ShippingError(
            f"The modules beside the notebook ({', '.join(sorted(r.name for r in roots))}) have {size >> 20} MiB of sources; "
            f"at most {MOST_BYTES >> 20} are sent. Next: install them where the workers run (`pip install`)."
        )
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in files:
            packed.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix(), _FIXED_TIME), path.read_bytes())
    content = whole.getvalue()
    return f"modules-{blake2b(content, digest_size=8).hexdigest()}.zip", content


def _imported(folder: Path) -> set[str]:
    """Top names of the modules of this folder that the notebook has imported."""
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and folder in Path(file).parents:
            found.add(name.partition(".")[0])
    return found


def _named(python_source: str) -> set[str]:
    """Top names of what the cell imports."""
    try:
        tree = ast.parse(python_source)
    except SyntaxError:
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _roots(folder: Path, names: Iterable[str]) -> list[Path]:
    found = []
    for name in names:
        package, module = folder / name, folder / f"{name}.py"
        if module.is_file():
            found.append(module)
        elif package.is_dir() and any(package.glob("*.py")):
            found.append(package)
    return found


def _files_of(root: Path) -> list[Path]:
    return [root] if root.is_file() else [path for path in root.rglob("*.py") if path.is_file()]
