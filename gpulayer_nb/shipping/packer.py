"""Packs what the ranks need and do not have yet.

Runs in the kernel. Owns the memory of what was sent. Must not know how a shipment travels or who reads it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpulayer_nb.shipping.blobs import BlobStore
from gpulayer_nb.shipping.cell_sources import cell_sources
from gpulayer_nb.shipping.closure import Closure
from gpulayer_nb.shipping.code_globals import imported_submodules
from gpulayer_nb.shipping.free_names import attributes_in, needed_names
from gpulayer_nb.shipping.group_packing import pack_group
from gpulayer_nb.shipping.grouping import ordered_groups, sharing_groups
from gpulayer_nb.shipping.hidden_names import is_hidden
from gpulayer_nb.shipping.pickler import Scope
from gpulayer_nb.shipping.shipment import PackedGroup, Shipment


@dataclass(frozen=True)
class _Sent:
    """What the ranks were given under a name. Names with the same `joint` were pickled together and share what they share."""

    digest: str
    joint: str
    shared: frozenset[int]
    blobs: frozenset[str] = frozenset()


@dataclass
class _Prepared:
    """A shipment that has not been committed."""

    sent: dict[str, _Sent]
    blobs: set[str]
    imports: set[str]


class Packer:
    """Finds, packs and remembers the names of one notebook for one set of ranks.

    Args:
        namespace: the notebook's `__main__` dict.
        blobs: where big buffers are put.
        reserved: names that the ranks define themselves; never sent.
    """

    def __init__(self, namespace: dict[str, Any], blobs: BlobStore, reserved: Collection[str] = ()) -> None:
        self._namespace, self._blobs, self._reserved = namespace, blobs, frozenset(reserved)
        self._scope = Scope(namespace, lambda name, value: self._ships(name))
        self._sent: dict[str, _Sent] = {}
        self._imported: set[str] = set()  # submodules that the ranks have imported
        self._prepared: dict[str, _Prepared] = {}

    def pack_cell(self, python_source: str) -> Shipment:
        """What the cell needs, transitively, and the ranks do not have as the notebook has it now.

        Args:
            python_source: the cell after IPython's transform.

        Raises:
            ShippingError: something needed cannot be pickled.
        """
        needed = needed_names(python_source)
        closure = self._closure()
        closure.add(self._existing(needed.certain))
        closure.add(self._existing(needed.possible), tolerant=True)
        modules = [self._namespace[name] for name in needed.certain | needed.possible if name in self._namespace]
        closure.imports |= imported_submodules(modules, attributes_in(python_source))
        return self._shipment(closure)

    def pack_values(self, values: Mapping[str, object]) -> Shipment:
        """These values, pickled together so that what they share stays shared, and the definitions they depend on.

        Raises:
            ShippingError: something needed cannot be pickled.
        """
        closure = self._closure()
        dumped = closure.add_values(values)
        shipment = self._shipment(closure)
        group, _ = pack_group(dumped, closure.digests, self._blobs)
        self._prepared[shipment.token].blobs |= {ref.digest for ref in group.refs() if ref.path}
        return replace(shipment, values=group)

    def commit(self, shipment: Shipment) -> None:
        """The ranks have loaded the shipment: what it holds is not sent again until it changes."""
        prepared = self._prepared.pop(shipment.token, None)
        if prepared is None:
            return
        self._prepared.clear()  # older ones: their ranks never loaded them
        self._sent.update(prepared.sent)
        self._imported |= prepared.imports
        kept = {digest for sent in self._sent.values() for digest in sent.blobs}
        self._blobs.discard(except_digests=kept | prepared.blobs)

    def mark_synced(self, *names: str) -> None:
        """The notebook's values of these names count as the ranks' own from now on: they brought each other up to date.

        Names that were sent together with them are included, because they share parts with them.
        """
        joints = {self._sent[name].joint for name in names if name in self._sent}
        partners = [name for name, sent in self._sent.items() if sent.joint in joints]
        closure, existing = self._closure(), self._existing({*names, *partners})
        closure.add(existing, tolerant=True, follow=False)
        for name in existing:
            dumped, old = closure.dumps.get(name), self._sent.get(name)
            digest = closure.digest(name) if dumped is not None else closure.unpicklable(name)
            shared = frozenset(dumped.shared) if dumped is not None else frozenset()
            joint, blobs = (old.joint, old.blobs) if old is not None else (uuid.uuid4().hex, frozenset())
            self._sent[name] = _Sent(digest, joint, shared, blobs)

    def send_again(self, *names: str) -> None:
        """The ranks may have changed these names and what shares parts with them: the next shipment that needs them has them."""
        joints = {self._sent[name].joint for name in names if name in self._sent}
        for name in [name for name, sent in self._sent.items() if sent.joint in joints]:
            del self._sent[name]

    def forget(self) -> None:
        """The ranks are new processes: they have nothing."""
        self._sent.clear()
        self._imported.clear()
        self._prepared.clear()

    def _closure(self) -> Closure:
        known_unpicklable = {name: sent.digest for name, sent in self._sent.items()}
        return Closure(self._scope, self._ships, known_unpicklable)

    def _ships(self, name: str) -> bool:
        if name in self._reserved or is_hidden(name) or name not in self._namespace:
            return False
        return self._namespace[name] is not self._namespace

    def _existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in sorted(names) if self._ships(name)]

    def _shipment(self, closure: Closure) -> Shipment:
        self._add_sharers(closure)
        groups: list[PackedGroup] = []
        prepared = _Prepared({}, set(), closure.imports - self._imported)
        filenames: dict[str, None] = {}
        dumps = closure.dumps
        together = sharing_groups({name: dumped.shared.keys() for name, dumped in dumps.items()})
        hard = {name: dumped.needs.hard for name, dumped in dumps.items()}
        soft = {name: dumped.needs.soft for name, dumped in dumps.items()}
        for names in ordered_groups(sorted(dumps), together, hard, soft):
            if not self._changed(names, closure):
                continue
            joint_dump = closure.joint(names)
            group, digests = pack_group(joint_dump, closure.digests, self._blobs)
            groups.append(group)
            filenames.update(joint_dump.needs.filenames)
            joint = uuid.uuid4().hex
            for name in names:
                prepared.sent[name] = _Sent(closure.digest(name), joint, frozenset(dumps[name].shared), frozenset(digests))
            prepared.blobs.update(digests)
        filenames.update(closure.value_filenames)
        shell = self._shell()
        shipment = Shipment(
            uuid.uuid4().hex, tuple(groups), None, tuple(sorted(prepared.imports)), cell_sources(filenames, shell)
        )
        self._prepared[shipment.token] = prepared
        return shipment

    def _changed(self, names: tuple[str, ...], closure: Closure) -> bool:
        """Whether the ranks lack one of the names as it is, or have them apart that belong together."""
        sent = [self._sent.get(name) for name in names]
        if any(s is None or s.digest != closure.digest(name) for name, s in zip(names, sent, strict=True)):
            return True
        return len({s.joint for s in sent if s is not None}) > 1

    def _add_sharers(self, closure: Closure) -> None:
        """Names sent earlier that share an object with one that is to be sent now go with it, or the ranks would have two."""
        while True:
            news = {key for name, dumped in closure.dumps.items() if self._changed((name,), closure) for key in dumped.shared}
            more = [
                n
                for n, sent in self._sent.items()
                if n not in closure.dumps and self._ships(n) and not news.isdisjoint(sent.shared)
            ]
            if not more:
                return
            before = set(closure.dumps)
            closure.add(more, tolerant=True)
            for name in more:  # an id may have been used again: keep only those that truly share
                dumped = closure.dumps.get(name)
                if dumped is not None and news.isdisjoint(dumped.shared):
                    del closure.dumps[name]
            if set(closure.dumps) == before:
                return

    def _shell(self) -> Any:
        get_ipython = self._namespace.get("get_ipython")
        return get_ipython() if callable(get_ipython) else None
