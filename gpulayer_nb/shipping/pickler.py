"""A pickler that knows the notebook: functions meet the receiver's globals, definitions are referred to by name.

Runs where values are packed (kernel, and ranks for results). Owns what is pickled by reference and what by value, and the list of
names a value depends on. Must not know digests, files or wires.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as _cloudpickle

from gpulayer_nb.shipping import rebuild
from gpulayer_nb.shipping.code_globals import attribute_names, global_names, imported_submodules
from gpulayer_nb.shipping.hidden_names import is_hidden
from gpulayer_nb.shipping.torch_values import TorchReducer

SEEN_LIMIT = 20_000
_CachedFunction = type(functools.lru_cache(lambda: None))


@dataclass(frozen=True)
class Scope:
    """A namespace to pack from, and what of it a stream may refer to by name.

    Attributes:
        namespace: the notebook's (or the rank's) `__main__` dict.
        may_refer: whether the receiver will have this object under this name.
    """

    namespace: dict[str, Any]
    may_refer: Callable[[str, object], bool] = lambda name, value: not is_hidden(name)


@dataclass
class Dependencies:
    """What a stream needs on the other side: `hard` names while it is unpickled, `soft` names when its functions run."""

    hard: dict[str, None] = field(default_factory=dict)  # dicts without values: sets that keep their order
    soft: dict[str, None] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    filenames: dict[str, None] = field(default_factory=dict)


class NotebookPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type information
    """Pickles with protocol 5 the values of the names `own`, whose definitions go by value; all others in the scope by name.

    Args:
        own: names whose values are being pickled.
        buffers: takes every out-of-band buffer.
    """

    def __init__(
        self, file: io.BytesIO, scope: Scope, own: frozenset[str], torch_reducer: TorchReducer, buffers: list[pickle.PickleBuffer]
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.needs = Dependencies()
        self.seen: dict[int, object] = {}  # the first objects that are neither plain containers, numbers nor text
        self._scope, self._own, self._torch = scope, own, torch_reducer
        self._closure_cells: dict[int, CellType] = {}
        self._reducers: dict[type, Callable[[Any], Any] | None] = {}  # by type: most objects are of few types

    def reducer_override(self, obj: Any) -> Any:
        """Called for every object but plain containers, numbers and text."""
        kind = type(obj)
        try:
            reducer = self._reducers[kind]
        except KeyError:
            reducer = self._reducers[kind] = self._reducer_of(kind)
        if len(self.seen) < SEEN_LIMIT:
            self.seen[id(obj)] = obj
        return NotImplemented if reducer is None else reducer(obj)

    def _reducer_of(self, kind: type) -> Callable[[Any], Any] | None:
        """What reduces objects of a type; None: pickle as it likes."""
        if issubclass(kind, FunctionType):
            return self._reduce_function
        if issubclass(kind, type):
            return self._reduce_class
        table: dict[type, Callable[[Any], Any]] = {
            CellType: self._reduce_cell,
            CodeType: self._reduce_code,
            ModuleType: self._reduce_module,
            _CachedFunction: self._reduce_cached,
        }
        return table.get(kind) or self._torch.reducer_of(kind)

    def _reduce_cell(self, cell: CellType) -> Any:
        """Empty, to be filled by the function: a cell that two functions share stays shared."""
        return (rebuild.empty_cell, ()) if id(cell) in self._closure_cells else NotImplemented

    def _reduce_module(self, module: ModuleType) -> Any:
        if sys.modules.get(module.__name__) is module:
            return rebuild.imported_module, (module.__name__,)
        return NotImplemented

    def _reduce_class(self, cls: type) -> Any:
        if cls.__module__ == "__main__" and (name := self._name_of(cls)) is not None:
            return rebuild.notebook_attribute, (name,)
        return super().reducer_override(cls)

    def _reduce_function(self, function: FunctionType) -> Any:
        if function.__globals__ is not self._scope.namespace:
            return super().reducer_override(function)
        if (name := self._name_of(function)) is not None:
            return rebuild.notebook_attribute, (name,)
        return self._function_by_value(function)

    def _reduce_cached(self, cached: Any) -> Any:
        """pickle would refer to it in `__main__`, also where it is to be defined first."""
        if getattr(cached.__wrapped__, "__globals__", None) is not self._scope.namespace:
            return super().reducer_override(cached)
        if (name := self._name_of(cached)) is not None:
            return rebuild.notebook_attribute, (name,)
        return rebuild.cached_function, (cached.__wrapped__, *cached.cache_parameters().values())

    def _name_of(self, obj: Any) -> str | None:
        """The qualified name under which the receiver will find this very object, noted as needed; None if it goes by value."""
        qualname: str = obj.__qualname__
        root, *parts = qualname.split(".")
        if root in self._own or root not in self._scope.namespace:
            return None
        found = self._scope.namespace[root]
        if not self._scope.may_refer(root, found):
            return None
        for part in parts:
            if not isinstance(found, type) or part not in vars(found):
                return None
            found = vars(found)[part]
        if found is not obj:
            return None
        self.needs.hard[root] = None
        return qualname

    def _function_by_value(self, function: FunctionType) -> Any:
        namespace, code = self._scope.namespace, function.__code__
        used = [name for name in global_names(code) if name in namespace]
        self.needs.soft.update(dict.fromkeys(used))
        cells = function.__closure__ or ()
        self._closure_cells.update((id(cell), cell) for cell in cells)
        contents = [_contents(cell) for cell in cells]
        reachable = [namespace[name] for name in used] + [value for content in contents for value in content]
        self.needs.imports |= imported_submodules(reachable, attribute_names(code))
        state = {
            "cells": contents,
            # copies of the strings: whether two equal ones are one object must not show in the stream
            "dict": {_copy(key): value for key, value in function.__dict__.items()},
            "__name__": _copy(function.__name__),
            "__qualname__": _copy(function.__qualname__),
            "__module__": function.__module__,
            "__doc__": function.__doc__,
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__annotations__": function.__annotations__,
        }
        return rebuild.notebook_function, (code, function.__closure__), state, None, None, rebuild.fill_function

    def _reduce_code(self, code: CodeType) -> Any:
        """As cloudpickle does, but with the file name kept (it blanks it), so that tracebacks show the cell."""
        self.needs.filenames[code.co_filename] = None
        make, arguments = _cloudpickle._code_reduce(code)
        blanked = [_copy(code.co_filename) if argument == "<dynamic-code>" else argument for argument in arguments]
        return make, tuple(blanked)


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not bound yet
        return ()


def _copy(text: str) -> str:
    return "".join(list(text))
