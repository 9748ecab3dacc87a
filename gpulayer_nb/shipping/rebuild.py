"""What an unpickled stream calls to make functions, references and torch storages again.

Runs on the receiving side, named by streams that `pickler` writes. Owns how things are put together.
Must not know how they were packed.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import CellType, CodeType, FunctionType
from typing import Any

_SMALL_STORAGE_BYTES = 256 << 10


def notebook_attribute(qualname: str) -> object:
    """The object that the notebook's namespace of this process has under a name such as `Net` or `Outer.Inner`."""
    value: object = sys.modules["__main__"]
    for part in qualname.split("."):
        value = vars(value)[part] if isinstance(value, type) else getattr(value, part)
    return value


def imported_module(name: str) -> object:
    return importlib.import_module(name)


def empty_cell() -> CellType:
    return CellType()


def notebook_function(code: CodeType, closure: tuple[CellType, ...] | None) -> FunctionType:
    """A function whose globals are the notebook's namespace of this process, as if its `def` had run here."""
    return FunctionType(code, vars(sys.modules["__main__"]), code.co_name, None, closure)


def fill_function(function: FunctionType, state: dict[str, Any]) -> None:
    """Second half of `notebook_function`, once the function exists: its closure may hold the function itself."""
    for cell, contents in zip(function.__closure__ or (), state.pop("cells"), strict=True):
        for content in contents:  # none for a cell that is empty
            cell.cell_contents = content
    function.__dict__.update(state.pop("dict"))
    for attribute, value in state.items():
        setattr(function, attribute, value)


def cached_function(function: FunctionType, maxsize: int | None, typed: bool) -> object:
    """A function with `functools.lru_cache`; the cache starts empty."""
    return functools.lru_cache(maxsize=maxsize, typed=typed)(function)


def same(value: object) -> object:
    """The object itself: lets a second wrapper of a shared thing arrive as the first."""
    return value


def torch_storage(buffer: Any) -> object:
    """An untyped CPU storage over a writable buffer: small ones are copied so that they can be resized, big ones stay mapped."""
    torch: Any = importlib.import_module("torch")
    view = memoryview(buffer)
    if len(view) == 0:
        return torch.UntypedStorage(0)
    mapped = torch.frombuffer(view, dtype=torch.uint8)
    return (mapped.clone() if len(view) < _SMALL_STORAGE_BYTES else mapped).untyped_storage()


def torch_typed_storage(untyped: Any, dtype: Any) -> object:
    torch: Any = importlib.import_module("torch")
    result: object = torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
    return result


def torch_default_generator() -> object:
    return importlib.import_module("torch").default_generator


def torch_generator(device: str, initial_seed: int, state: Any) -> object:
    generator: Any = importlib.import_module("torch").Generator(device)
    generator.manual_seed(initial_seed)
    generator.set_state(state)
    return generator
