"""What a script cannot say in words, saved beside it: tensors and arrays, loaded without running any code.

Runs in the kernel; torch is imported when there is something to save. Owns what may be saved.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

MAX_LITERAL = 300  # characters; what is longer is data
_ATOMS = (bool, int, str, bytes, type(None))


class SavedData:
    """`add` gives the expression that stands for a value in the script."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> str | None:
        """None for what cannot be saved so that `torch.load(weights_only=True)` reads it."""
        torch = sys.modules.get("torch")
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray):
            if torch is None or value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
                return None
            self.values[name] = torch.from_numpy(numpy.ascontiguousarray(value))
            return f'notebook_data["{name}"].numpy()'
        if not _is_plain(value, torch):
            return None
        self.values[name] = value
        return f'notebook_data["{name}"]'

    def write(self, path: Path) -> None:
        import torch  # whoever has tensors has it already

        torch.save(self.values, path)
        torch.load(path, weights_only=True)  # what cannot be read again is found now


def literal(value: Any) -> str | None:
    """A value as Python text, if that is short and says all."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.dtype):
        return repr(value)
    if torch is not None and isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, Path):
        return f"Path({str(value)!r})"
    if not _is_literal(value):
        return None
    text = repr(value)
    return text if len(text) <= MAX_LITERAL else None


def _is_literal(value: Any) -> bool:
    if type(value) in _ATOMS:
        return True
    if type(value) is float:
        return math.isfinite(value)
    if type(value) in (list, tuple, set):
        return bool(value or type(value) is not set) and all(_is_literal(part) for part in value)
    if type(value) is dict:
        return all(_is_literal(key) and _is_literal(part) for key, part in value.items())
    return False


def _is_plain(value: Any, torch: Any) -> bool:
    """Whether weights_only loading reads it."""
    if type(value) in _ATOMS or type(value) is float:
        return True
    if torch is not None and (type(value) is torch.Tensor or type(value) is torch.nn.Parameter):
        return True
    if type(value) in (list, tuple):
        return all(_is_plain(part, torch) for part in value)
    if type(value).__name__ in ("dict", "OrderedDict") and isinstance(value, dict):
        return all(type(key) in _ATOMS and _is_plain(part, torch) for key, part in value.items())
    return False
