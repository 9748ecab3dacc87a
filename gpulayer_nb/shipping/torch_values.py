"""How torch's storages and generators are pickled: out of band, without a copy, shared as they are in the notebook.

Runs where values are packed. Owns the knowledge of torch, found in sys.modules and never imported. Must not know namespaces.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from collections.abc import Callable
from typing import Any

from gpulayer_nb.shipping import rebuild


class TorchReducer:
    """Reduces torch objects; remembers each storage's buffer while it lives, so that a storage is packed once."""

    def __init__(self) -> None:
        self._storages: dict[int, Any] = {}  # StorageImpl address -> the wrapper that stands for it
        self._copies: dict[int, Any] = {}  # StorageImpl address of a device storage -> its bytes on the CPU

    def reducer_of(self, kind: type) -> Callable[[Any], Any] | None:
        """What reduces torch's storages and generators; None for any other type."""
        torch: Any = sys.modules.get("torch")
        if torch is None or not kind.__module__.startswith("torch"):
            return None
        if issubclass(kind, torch.UntypedStorage):
            return self._untyped
        if issubclass(kind, torch.storage.TypedStorage):
            return _typed
        if issubclass(kind, torch.Generator):
            return _generator
        return None

    def _untyped(self, storage: Any) -> Any:
        if storage.device.type == "meta":
            return NotImplemented
        first = self._storages.setdefault(storage._cdata, storage)
        if first is not storage:
            return rebuild.same, (first,)
        return rebuild.torch_storage, (pickle.PickleBuffer(self._bytes(storage)),)

    def _bytes(self, storage: Any) -> Any:
        """The storage's memory as a buffer. The storage is kept alive by `_storages`, its copy by `_copies`."""
        if storage.nbytes() == 0:
            return bytearray()
        if storage.device.type != "cpu":
            storage = self._copies.setdefault(storage._cdata, storage.cpu())
        return (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())


def _typed(storage: Any) -> Any:
    return rebuild.torch_typed_storage, (storage._untyped_storage, storage.dtype)


def _generator(generator: Any) -> Any:
    if generator is sys.modules["torch"].default_generator:
        return rebuild.torch_default_generator, ()
    return rebuild.torch_generator, (generator.device.type, generator.initial_seed(), generator.get_state())
