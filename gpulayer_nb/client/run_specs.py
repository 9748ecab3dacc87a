"""What each rank is told: specs and the record of the run's start, made from a request and a group.

Runs in the kernel. Owns the way from the one to the other. Must not know how specs are sent.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulayer_nb.client.rank_group import ReadyGroup
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.records.record import RunStarted
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_spec import RunSpec
from gpulayer_nb.shipping.free_names import bound_names, free_names
from gpulayer_nb.shipping.shipment import Shipment

_INLINE_BYTES = 256 * 1024  # a bigger shipment goes through a file, once for the machine instead of once a rank


def rank_specs(
    request: RunRequest,
    run_id: str,
    folder: RunFolder,
    group: ReadyGroup,
    shipment: Shipment,
    blobs: Path,
    namespace: Mapping[str, Any],
) -> list[RunSpec]:
    """One spec a rank, in rank order.

    Args:
        blobs: folder for what is too big to send once a rank.
        namespace: the notebook's.
    """
    packed: bytes | None = None if shipment.is_empty else pickle.dumps(shipment)
    path: str | None = None
    if packed is not None and len(packed) > _INLINE_BYTES:
        file = blobs / f"shipment-{run_id}"
        file.write_bytes(packed)
        packed, path = None, str(file)
    parts = _parts_spoken_of(request, namespace) if request.mode == "train" else None
    everyone = range(group.topology.world_size)
    chosen = everyone if request.only_ranks is None else request.only_ranks
    return [
        RunSpec(
            run_id=run_id,
            mode=request.mode,
            topology=group.topology,
            place=group.topology.place(rank),
            group=group.spec,
            accelerator=group.accelerator,
            source=request.source if rank in chosen else "",  # the others only join the group
            cell=request.cell,
            shipment=packed,
            shipment_path=path,
            blob_folder="" if request.detach else str(blobs),  # the blobs of a detached run go before its result is read
            folder=str(folder.path),
            options=request.options,
            names=request.names,
            parts=parts,
            collect=request.collect,
        )
        for rank in everyone
    ]


def run_started(request: RunRequest, run_id: str, group: ReadyGroup) -> RunStarted:
    return RunStarted(
        time=time.time(),
        run_id=run_id,
        mode="train" if request.mode == "fit" else request.mode,
        num_nodes=group.topology.num_nodes,
        devices=group.topology.devices,
        backend=group.spec.backend,
        accelerator=group.accelerator,
        simulated=True,
        workers=tuple(assignment.worker for assignment in group.assignments),
        device_names=group.device_names,
        pids=tuple(group.identity(rank).pid for rank in range(group.topology.world_size)),
    )


def uses_of_a_fit(request: RunRequest) -> str:
    """A training cell uses the parts of its fit even where it does not write their names."""
    names = request.names
    parts = (names.model, names.train_loader, names.val_loader, names.loss_fn, names.optimizer) if request.mode == "train" else ()
    return "".join(f"\n{name}" for name in parts)


def _parts_spoken_of(request: RunRequest, namespace: Mapping[str, Any]) -> frozenset[str]:
    """Optional parts that the cell names; a validation loader of the notebook counts too.

    The ranks may have others from an earlier cell, such as a scheduler of an optimizer that is no longer used.
    """
    names = request.names
    spoken_of = free_names(request.python) | bound_names(request.python)
    return frozenset(
        name for name in names.optional if name in spoken_of or (name == names.val_loader and namespace.get(name) is not None)
    )
