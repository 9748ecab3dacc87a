"""The panel's package: one version with the Python package, a lock that names no host, a bundle that stays small."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import gpulayer_nb

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "labextension"
BUILT = ROOT / "gpulayer_nb" / "labextension"
BUNDLE_BYTES = 100_000


def test_python_and_npm_have_one_version() -> None:
    package = json.loads((SOURCES / "package.json").read_text())
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    described = json.loads((ROOT / "gpulayer_nb" / "server" / "openapi.json").read_text())
    assert {package["version"], lock["version"], described["info"]["version"]} == {gpulayer_nb.__version__}


def test_the_lock_leaves_the_registry_to_whoever_installs() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert not [name for name, entry in lock["packages"].items() if "resolved" in entry]
    assert all("integrity" in entry for name, entry in lock["packages"].items() if name)


def test_words_are_marked_for_translation() -> None:
    """Text that a person reads goes through `trans`; what stands in quotes between tags would not be found by a translator."""
    offenders = []
    for path in sorted(SOURCES.glob("src/*.tsx")):
        for line in re.findall(r">([A-Z][a-z]+ [a-z][^<{]*)<", path.read_text()):
            offenders.append(f"{path.name}: {line}")
    assert not offenders


def test_the_bundle_is_small() -> None:
    if not BUILT.is_dir():
        pytest.skip("the panel is not built here: npm was missing when the package was installed")
    size = sum(path.stat().st_size for path in BUILT.glob("static/*.js"))
    assert size <= BUNDLE_BYTES, f"{size} bytes"
    manifest = json.loads((BUILT / "package.json").read_text())
    assert manifest["name"] == "gpulayer-nb"
    assert urlsplit(manifest["jupyterlab"]["_build"]["load"]).netloc == ""
