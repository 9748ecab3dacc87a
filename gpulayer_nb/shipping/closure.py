"""The names of one shipment and everything they depend on, each pickled by itself.

Runs where values are packed, for one packing. Owns the dumps and their digests. Must not know what was sent before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpulayer_nb.errors import ShippingError
from gpulayer_nb.shipping.blobs import BIG_BYTES
from gpulayer_nb.shipping.culprit import cannot_be_sent, find_culprit
from gpulayer_nb.shipping.digest import DigestCache
from gpulayer_nb.shipping.dump import Dump, dump
from gpulayer_nb.shipping.pickler import Scope
from gpulayer_nb.shipping.torch_values import TorchReducer


class Closure:
    """Grows by `add` until it is closed under dependencies.

    Args:
        scope: where names are looked up and definitions referred to.
        ships: whether a name may be sent at all.
        left_alone: digests of what the other side has; a name there as `unpicklable` with the same object is no error.
        tolerant_values: leave out what values depend on and cannot be pickled.
    """

    def __init__(
        self, scope: Scope, ships: Callable[[str], bool], left_alone: Mapping[str, str], *, tolerant_values: bool = False
    ) -> None:
        self.dumps: dict[str, Dump] = {}
        self.digests = DigestCache()
        self.imports: set[str] = set()
        self.value_filenames: dict[str, None] = {}
        self._scope, self._ships, self._left_alone = scope, ships, left_alone
        self._tolerant_values = tolerant_values
        self._torch = TorchReducer()  # lives as long as the dumps: it holds the storages they point into
        self._name_digests: dict[str, str] = {}
        self._skipped: set[str] = set()

    def add(self, names: Iterable[str], *, tolerant: bool = False, follow: bool = True) -> None:
        """Pickle these names and, with `follow`, all they depend on.

        Args:
            names: that ship.
            tolerant: leave out what cannot be pickled, and what cannot be unpickled without it.
            follow: go on to dependencies.

        Raises:
            ShippingError: a name cannot be pickled, and it was not `tolerant`.
        """
        used_by: dict[str, str | None] = dict.fromkeys(names)
        waiting = list(used_by)
        while waiting:
            name = waiting.pop()
            if name in self.dumps or (name in self._skipped and tolerant):
                continue
            value = self._scope.namespace[name]
            try:
                dumped = dump({name: value}, self._scope, self._torch)
            except Exception as error:  # a value's own reduction may raise anything
                self._skipped.add(name)
                if tolerant or self._left_alone.get(name) == self.unpicklable(name):
                    continue
                raise self._explain(name, value, error, used_by.get(name)) from error
            self.dumps[name] = dumped
            self.imports |= dumped.needs.imports
            if follow:
                for other in reversed([*dumped.needs.hard, *dumped.needs.soft]):
                    if other not in self.dumps and self._ships(other):
                        used_by.setdefault(other, name)
                        waiting.append(other)
        if self._skipped and follow:
            self._drop_dependents()

    def add_values(self, values: Mapping[str, object]) -> Dump:
        """Pickle values that are not names of the scope, together, and add the names they depend on."""
        try:
            dumped = dump(values, self._scope, self._torch, own=frozenset())
        except Exception as error:  # a value's own reduction may raise anything
            for name, value in values.items():
                if (raised := self._attempt(value)) is not None:
                    raise self._explain(name, value, raised, None) from raised
            raise ShippingError(f"{', '.join(values)} cannot be sent together: {type(error).__name__}: {error}.") from error
        self.imports |= dumped.needs.imports
        self.value_filenames.update(dumped.needs.filenames)
        self.add([name for name in (*dumped.needs.hard, *dumped.needs.soft) if self._ships(name)], tolerant=self._tolerant_values)
        return dumped

    def joint(self, names: tuple[str, ...]) -> Dump:
        """The names pickled together."""
        if len(names) == 1:
            return self.dumps[names[0]]
        return dump({name: self._scope.namespace[name] for name in names}, self._scope, self._torch)

    def digest(self, name: str) -> str:
        """What the name's own dump hashes to."""
        if name not in self._name_digests:
            dumped = self.dumps[name]
            self._name_digests[name] = self.digests.digest_all(dumped.stream, dumped.buffers, BIG_BYTES)
        return self._name_digests[name]

    def unpicklable(self, name: str) -> str:
        """Stands for the digest of a value that has none: the object's identity."""
        return f"unpicklable:{id(self._scope.namespace[name])}"

    def _drop_dependents(self) -> None:
        """What cannot be unpickled without a skipped name is left out too."""
        lost = set(self._skipped)
        while more := {
            name for name, dumped in self.dumps.items() if not lost.isdisjoint(dumped.needs.hard) and name not in lost
        }:
            lost |= more
        for name in lost & self.dumps.keys():
            del self.dumps[name]

    def _explain(self, name: str, value: object, error: BaseException, used_by: str | None) -> ShippingError:
        return cannot_be_sent(name, value, find_culprit(value, error, self._attempt), used_by)

    def _attempt(self, part: Any) -> BaseException | None:
        try:
            dump({"": part}, self._scope, self._torch, own=frozenset())
        except Exception as error:  # noqa: BLE001  # the part's own reduction may raise anything; it is looked at, not lost
            return error
        return None
