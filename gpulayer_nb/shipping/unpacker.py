"""Installs what was shipped into this process's notebook namespace.

Runs on ranks, and in the kernel for what comes back. Owns the memory of what came from the other side.
Must not know how it was sent.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from gpulayer_nb.errors import ShippingError
from gpulayer_nb.shipping.blobs import load_blob
from gpulayer_nb.shipping.cell_sources import register_sources
from gpulayer_nb.shipping.shipment import BufferRef, PackedGroup, Shipment

LoadBlob = Callable[[BufferRef], memoryview]


@dataclass(frozen=True)
class Unpacked:
    """`names` were installed; `values` are the shipment's values for the receiver's own use."""

    names: tuple[str, ...]
    values: dict[str, Any]


class Unpacker:
    """Unpacks shipments into one namespace.

    Args:
        namespace: the `__main__` dict of this process.
        load_blob: turns a buffer that lies in a file into writable memory.
    """

    def __init__(self, namespace: dict[str, Any], load_blob: LoadBlob = load_blob) -> None:
        self.namespace = namespace
        self.definitions: dict[str, object] = {}  # classes, functions, modules as they came; what results may refer to by name
        self._load_blob = load_blob

    def unpack(self, shipment: Shipment, *, overwrite: bool = True) -> Unpacked:
        """Install the shipment's names.

        Args:
            shipment: from the other side.
            overwrite: replace what the namespace has. Otherwise a name is installed only where there is none, or where the
                namespace still holds the definition that came before.

        Raises:
            ShippingError: something cannot be unpickled here, for example for want of a module.
        """
        get_ipython = self.namespace.get("get_ipython")
        register_sources(shipment.sources, get_ipython() if callable(get_ipython) else None)
        for name in shipment.imports:
            _import(name)
        installed: list[str] = []
        for group in shipment.groups:
            for name, value in load_group(group, self._load_blob).items():
                if overwrite or name not in self.namespace or self._came_before(name):
                    self.namespace[name] = value
                    installed.append(name)
                    self._remember(name, value)
        values = load_group(shipment.values, self._load_blob) if shipment.values is not None else {}
        return Unpacked(tuple(installed), values)

    def knows(self, name: str, value: object) -> bool:
        """Whether the other side has this very definition under this name."""
        return name in self.definitions and self.definitions[name] is value

    def _came_before(self, name: str) -> bool:
        return self.knows(name, self.namespace[name])

    def _remember(self, name: str, value: object) -> None:
        if isinstance(value, (type, FunctionType, ModuleType)):
            self.definitions[name] = value
        else:
            self.definitions.pop(name, None)


def unpack(shipment: Shipment, namespace: dict[str, Any], *, load_blob: LoadBlob = load_blob) -> tuple[str, ...]:
    """Install the shipment's names into a namespace; returns them. For a receiver that never sends anything back."""
    return Unpacker(namespace, load_blob).unpack(shipment).names


def load_group(group: PackedGroup, load_blob: LoadBlob = load_blob) -> dict[str, Any]:
    """The values of a group by name.

    Raises:
        ShippingError: one of them cannot be unpickled here.
    """
    chunks = [_open(ref, load_blob) for ref in group.chunks]
    buffers = [chunks[chunk][offset : offset + size] for chunk, offset, size in group.spans]
    stream = _open(group.stream, load_blob)
    try:
        values: dict[str, Any] = pickle.loads(stream, buffers=buffers)
    except ModuleNotFoundError as error:
        raise ShippingError(_no_module(error.name or str(error), " and ".join(group.names))) from error
    except Exception as error:  # a value's own __setstate__ may raise anything
        raise ShippingError(
            f"{' and '.join(group.names)} arrived but cannot be put together again: {type(error).__name__}: {error}. "
            f"Next: make {'it' if len(group.names) == 1 else 'them'} inside the cell."
        ) from error
    return values


def _open(ref: BufferRef, load_blob: LoadBlob) -> memoryview:
    return memoryview(bytearray(ref.inline)) if ref.inline is not None else load_blob(ref)


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ShippingError(_no_module(error.name or name, name)) from error


def _no_module(module: str, needed_by: str) -> str:
    whom = "the cell" if needed_by == module else needed_by
    return (
        f"The ranks have no module {module}, which {whom} needs. "
        f"Next: install it where the workers run (`pip install {module.split('.')[0]}`), or define what you need of it in a cell."
    )
