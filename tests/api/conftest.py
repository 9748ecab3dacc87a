"""The real kernel of the magics' tests, for the Python interface."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("magics_conftest", Path(__file__).parent.parent / "magics" / "conftest.py")
assert _spec is not None and _spec.loader is not None
_magics = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _magics  # its dataclasses ask for it
_spec.loader.exec_module(_magics)

notebook = _magics.notebook
