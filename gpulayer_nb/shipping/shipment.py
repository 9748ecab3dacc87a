"""What travels between the notebook and the ranks: packed names, their buffers, the cells they were written in.

Made on one side, read on the other; plain standard-library types, so that pickling them is cheap. Must not know who sends them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BufferRef:
    """A run of bytes: in the message (`inline`), or in the file `path` on the sender's machine, which is named by its digest."""

    digest: str
    size_bytes: int
    path: str | None = None
    inline: bytes | None = None


@dataclass(frozen=True)
class PackedGroup:
    """Names that are pickled together, so that what they share stays shared.

    `stream` is a protocol-5 pickle of a dict from name to value; `spans[i]` says where its i-th out-of-band buffer lies:
    (index into `chunks`, offset in bytes, size in bytes).
    """

    names: tuple[str, ...]
    stream: BufferRef
    chunks: tuple[BufferRef, ...] = ()
    spans: tuple[tuple[int, int, int], ...] = ()

    def refs(self) -> Iterator[BufferRef]:
        yield self.stream
        yield from self.chunks


@dataclass(frozen=True)
class CellSource:
    """The text of a cell that shipped code was written in. `execution_count` is the notebook's number of it, if it has one."""

    text: str
    execution_count: int | None = None


@dataclass(frozen=True)
class Shipment:
    """Groups in the order in which they must be unpacked.

    Attributes:
        token: names this shipment to the packer that made it.
        groups: names to install in the receiver's namespace.
        values: values for the receiver's own use, not installed in its namespace (the model and loaders of a fit).
        imports: modules that code reaches as attributes of their package, and that the receiver may not have imported.
        sources: cells by the file name that their code carries, for tracebacks.
    """

    token: str = ""
    groups: tuple[PackedGroup, ...] = ()
    values: PackedGroup | None = None
    imports: tuple[str, ...] = ()
    sources: dict[str, CellSource] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that will be installed."""
        return tuple(name for group in self.groups for name in group.names)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to install or import, so that sending it changes nothing on the ranks."""
        return not self.groups and not self.imports and self.values is None

    def refs(self) -> Iterator[BufferRef]:
        for group in (*self.groups, *([self.values] if self.values else [])):
            yield from group.refs()

    @property
    def wire_bytes(self) -> int:
        """Bytes that travel in the message to every rank."""
        return sum(len(ref.inline) for ref in self.refs() if ref.inline is not None)

    @property
    def blob_bytes(self) -> int:
        """Bytes that lie in files, each file counted once."""
        return sum(size for size, _ in {ref.digest: (ref.size_bytes, ref.path) for ref in self.blob_refs()}.values())

    def blob_refs(self) -> tuple[BufferRef, ...]:
        """The buffers that lie in files: what a worker on another machine has to be given first."""
        return tuple({ref.digest: ref for ref in self.refs() if ref.path is not None}.values())
