"""One pickling of one or more names: its stream, its buffers, what it needs, and which objects others may share with it.

Runs where values are packed. Owns the raw result of pickling. Must not know what was sent before.
"""

from __future__ import annotations

import enum
import io
import itertools
import logging
import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any

from gpulayer_nb.shipping.pickler import Dependencies, NotebookPickler, Scope
from gpulayer_nb.shipping.torch_values import TorchReducer

_SHARED_LIMIT = 20_000  # objects per dump that are remembered for sharing; outer ones come first
_LONG_STREAM_BYTES = 1 << 20
_CONTAINERS = (list, dict, set, bytearray, deque, OrderedDict, defaultdict, CellType)
_IDENTITY_FREE = (
    type,
    FunctionType,
    BuiltinFunctionType,
    ModuleType,
    enum.Enum,
    logging.Logger,
    PurePath,
    tuple,
    str,
    bytes,
    int,
    float,
    complex,
    frozenset,
)
_STATIC_BUT_MUTABLE = frozenset({("numpy", "ndarray"), ("torch", "Generator"), ("torch._C", "Generator")})
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE


@dataclass(frozen=True)
class Dump:
    """The values of `names`, pickled as one dict. `shared` maps the id of each mutable object inside to the object."""

    names: tuple[str, ...]
    stream: memoryview
    buffers: tuple[memoryview, ...]
    needs: Dependencies
    shared: dict[int, object]

    @property
    def size_bytes(self) -> int:
        return len(self.stream) + sum(map(len, self.buffers))


def dump(values: Mapping[str, object], scope: Scope, torch_reducer: TorchReducer, own: frozenset[str] | None = None) -> Dump:
    """Pickle the values together.

    Args:
        values: by name.
        scope: where definitions are referred to.
        torch_reducer: keeps storages alive for as long as the dump is used.
        own: names whose definitions go by value; by default those of `values`.

    Raises:
        Exception: whatever the value's own reduction raised.
    """
    root = dict(values)
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler = NotebookPickler(file, scope, frozenset(root) if own is None else own, torch_reducer, buffers)
    pickler.dump(root)
    stream = memoryview(file.getvalue())
    return Dump(tuple(root), stream, tuple(map(_raw, buffers)), pickler.needs, _shareable(pickler, root, len(stream)))


def _raw(buffer: pickle.PickleBuffer) -> memoryview:
    with memoryview(buffer) as view:
        return buffer.raw() if view.nbytes else memoryview(b"")


def _shareable(pickler: NotebookPickler, root: dict[str, object], stream_bytes: int) -> dict[int, object]:
    """Mutable objects inside the values. Of a long stream only instances and outer containers: its memo is slow to read."""
    if stream_bytes < _LONG_STREAM_BYTES:
        memo: dict[int, tuple[int, Any]] = pickler.memo.copy()
        objects: Iterable[Any] = (obj for _, obj in memo.values() if obj is not root)
    else:
        objects = itertools.chain(root.values(), *map(_held, root.values()), pickler.seen.values())
    return {id(obj): obj for obj in itertools.islice(filter(_has_identity, objects), _SHARED_LIMIT)}


def _held(value: object) -> Iterable[object]:
    """What a value holds directly."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    return getattr(value, "__dict__", {}).values()


def _has_identity(obj: object) -> bool:
    """Whether two names that hold this object would see each other's changes to it."""
    kind = type(obj)
    if kind in _CONTAINERS:
        return True
    if isinstance(obj, _IDENTITY_FREE) or kind.__module__ == "typing":
        return False
    if kind.__flags__ & _HEAP_TYPE and not kind.__flags__ & _IMMUTABLE_TYPE:
        return True
    return (kind.__module__, kind.__name__) in _STATIC_BUT_MUTABLE
