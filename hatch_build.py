"""Builds the JupyterLab panel while the package is built.

Runs in the build back end. Owns the rule: with npm here the panel is built; without it the package installs without the panel
and says so. GPULAYER_BUILD_LAB=skip leaves it out, GPULAYER_BUILD_LAB=require fails rather than leave it out (for releases).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("package.json", "package-lock.json", "tsconfig.json", "src", "style", "schema")
STEP_SECONDS = 600  # a cold download of the compiler takes a minute
NEXT = "Next: install Node.js 20 or newer with npm, then install gpulayer-nb again."


class PanelHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's parameter means nothing here
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sources, built = Path(self.root, "labextension"), Path(self.root, "gpulayer_nb", "labextension")
        mode = os.environ.get("GPULAYER_BUILD_LAB", "auto")
        if mode not in ("auto", "skip", "require"):
            raise ValueError(f"GPULAYER_BUILD_LAB={mode}: write auto, skip or require")
        check_versions(sources, str(self.metadata.version))
        why = "GPULAYER_BUILD_LAB=skip" if mode == "skip" else ""
        if mode != "skip" and is_stale(sources, built):
            why = build(sources, built)
            if why and mode == "require":
                raise RuntimeError(f"The panel was not built: {why}. {NEXT}")
        if not (built / "package.json").is_file():
            self.app.display_warning(f"gpulayer_nb is built without its JupyterLab panel: {why}. {NEXT}")
            leave_out(self.build_config.target_config)


def check_versions(sources: Path, version: str) -> None:
    found = json.loads((sources / "package.json").read_text())["version"]
    if found != version:
        raise ValueError(f"labextension/package.json has version {found}, the Python package {version}: one release, one version")


def is_stale(sources: Path, built: Path) -> bool:
    """Whether the panel was never built, or a source is newer."""
    done = built / "package.json"
    if not done.is_file():
        return True
    files = [file for name in SOURCES for file in (sources / name, *(sources / name).rglob("*")) if file.is_file()]
    return any(file.stat().st_mtime > done.stat().st_mtime for file in files)


def build(sources: Path, built: Path) -> str:
    """Builds the panel; returns why it could not, or nothing."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    for step in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        try:
            subprocess.run([npm, *step], cwd=sources, check=True, timeout=STEP_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(built, ignore_errors=True)
            return f"`npm {' '.join(step)}` in labextension/ failed ({error})"
    return ""


def leave_out(target: dict[str, Any]) -> None:
    """Data files that are not there would fail the build."""
    shared = target.get("shared-data", {})
    for source in [source for source in shared if "labextension" in source]:
        del shared[source]
