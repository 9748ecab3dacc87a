"""What of a callback is worth bringing back to the notebook: its attributes that are plain values.

Runs on global rank 0 when a fit is over. Owns what is plain: numbers, texts, paths, tensors, arrays, and collections of these.
Models, trainers and files that a callback holds stay where they are.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from pathlib import PurePath
from typing import Any

from torch import Tensor
from torch.nn import Parameter

_ATOMS = (bool, int, float, complex, str, bytes, PurePath, type(None))
_COLLECTIONS = (list, tuple, set, frozenset, deque)
_MAPPINGS = (dict, OrderedDict, Counter)
_DEEPEST = 20  # a collection that holds itself is none of ours


def plain_attributes(callback: Any) -> dict[str, Any]:
    """The attributes that are plain values, tensors in main memory."""
    return {name: _on_host(value) for name, value in vars(callback).items() if _is_plain(value, _DEEPEST)}


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, _ATOMS):
        return type(value).__module__ in ("builtins", "pathlib", "pathlib._local")
    if type(value) in (Tensor, Parameter):
        return True
    if type(value).__module__ == "numpy":
        return getattr(getattr(value, "dtype", None), "kind", "O") != "O"  # an array of objects may hold anything
    if depth == 0:
        return False
    if type(value) in _MAPPINGS:
        return all(_is_plain(name, depth - 1) and _is_plain(part, depth - 1) for name, part in value.items())
    return type(value) in _COLLECTIONS and all(_is_plain(part, depth - 1) for part in value)


def _on_host(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()  # a view of a large tensor would travel with all of it
    if type(value) in _MAPPINGS:
        return type(value)({name: _on_host(part) for name, part in value.items()})
    if type(value) in _COLLECTIONS:
        return type(value)(_on_host(part) for part in value)
    return value
