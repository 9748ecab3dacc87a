"""The campaign drives a real kernel: the same as the magics' tests use."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("gpulayer_notebook_fixtures", Path(__file__).parents[1] / "magics" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _module  # dataclasses look their module up
_spec.loader.exec_module(_module)
notebook = _module.notebook
fresh_notebook = _module.fresh_notebook
