"""Packs results of a rank for the notebook.

Runs on ranks. Owns what goes back along with a result. Must not know how it travels.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from gpulayer_nb.shipping.blobs import BIG_BYTES, BlobStore
from gpulayer_nb.shipping.cell_sources import cell_sources
from gpulayer_nb.shipping.closure import Closure
from gpulayer_nb.shipping.group_packing import pack_group
from gpulayer_nb.shipping.grouping import ordered_groups, sharing_groups
from gpulayer_nb.shipping.hidden_names import is_hidden
from gpulayer_nb.shipping.pickler import Scope
from gpulayer_nb.shipping.shipment import Shipment
from gpulayer_nb.shipping.unpacker import Unpacker


def pack_return(
    values: Mapping[str, object], unpacker: Unpacker, blobs: BlobStore | None = None, reserved: Collection[str] = ()
) -> Shipment:
    """The values, together, for `Unpacker.unpack(..., overwrite=False)` in the notebook.

    Definitions that came from the notebook and are still what they were go back by name; others by value. Small globals that the
    functions of such definitions use go along, so that a class made on the ranks works in the notebook.

    Args:
        values: by name.
        unpacker: knows this rank's namespace and what of it came from the notebook.
        blobs: where big buffers are put; None keeps all in the message.
        reserved: names that the ranks define themselves.

    Raises:
        ShippingError: a value cannot be pickled.
    """
    namespace: dict[str, Any] = unpacker.namespace

    def ships(name: str) -> bool:
        if name not in namespace or is_hidden(name) or unpacker.knows(name, namespace[name]):
            return False
        return name not in reserved or isinstance(namespace[name], ModuleType)  # the ranks' torch is the notebook's torch

    closure = Closure(Scope(namespace, unpacker.knows), ships, {}, tolerant_values=True)
    dumped = closure.add_values(values)
    dumps = {name: d for name, d in closure.dumps.items() if d.size_bytes < BIG_BYTES and name not in values}
    together = sharing_groups({name: d.shared.keys() for name, d in dumps.items()})
    hard = {name: d.needs.hard for name, d in dumps.items()}
    soft = {name: d.needs.soft for name, d in dumps.items()}
    filenames = dict(closure.value_filenames)
    groups = []
    for names in ordered_groups(sorted(dumps), together, hard, soft):
        joint = closure.joint(names)
        filenames.update(joint.needs.filenames)
        groups.append(pack_group(joint, closure.digests, blobs)[0])
    get_ipython = namespace.get("get_ipython")
    sources = cell_sources(filenames, get_ipython() if callable(get_ipython) else None)
    return Shipment(
        uuid.uuid4().hex, tuple(groups), pack_group(dumped, closure.digests, blobs)[0], tuple(sorted(closure.imports)), sources
    )
