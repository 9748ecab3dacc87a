"""What each rank is told: specs and the record of the run's start, made from a request and a group.

Runs in the kernel. Owns the way from the one to the other. Must not know how specs are sent.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulayer_nb.client.cluster import Cluster
from gpulayer_nb.client.rank_group import ReadyGroup
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.records.record import RunStarted
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_spec import RunSpec
from gpulayer_nb.shipping.free_names import bound_names, free_names
from gpulayer_nb.shipping.shipment import Shipment
from gpulayer_nb.shipping.user_modules import archive

_INLINE_BYTES = 256 * 1024  # a bigger shipment goes through a file, once for the machine instead of once a rank


def rank_specs(
    request: RunRequest,
    run_id: str,
    folder: RunFolder,
    group: ReadyGroup,
    shipment: Shipment,
    cluster: Cluster,
    namespace: Mapping[str, Any],
) -> list[RunSpec]:
    """One spec a rank, in rank order; what is too big to send once a rank is with every worker when this returns.

    Args:
        namespace: the notebook's.
    """
    packed: bytes | None = None if shipment.is_empty else pickle.dumps(shipment)
    file: str | None = None
    files = [Path(ref.path) for ref in shipment.blob_refs() if ref.path is not None]
    if packed is not None and len(packed) > _INLINE_BYTES:
        file = f"shipment-{run_id}"
        (cluster.blobs / file).write_bytes(packed)
        files.append(cluster.blobs / file)
        packed = None
    modules = _modules(request, cluster)
    resume = _resume_file(request, run_id, cluster)
    delivered = cluster.deliver([*files, *filter(None, [modules, resume])], folder.path)
    parts = parts_spoken_of(request, namespace) if request.mode == "train" else None
    everyone = range(group.topology.world_size)
    chosen = everyone if request.only_ranks is None else request.only_ranks
    specs = []
    for rank in everyone:
        assignment = group.assignments[rank]
        there = delivered[assignment.key]
        spec = RunSpec(
            run_id=run_id,
            mode=request.mode,
            topology=group.topology,
            place=assignment.place,
            group=replace(group.spec, interface=assignment.interface),
            accelerator=group.accelerator,
            source=request.source if rank in chosen else "",  # the others only join the group
            cell=request.cell,
            shipment=packed,
            shipment_path=str(Path(there.blobs) / file) if file else None,
            blobs=there.blobs,
            blob_folder="" if request.detach else there.returns,  # the blobs of a detached run go before its result is read
            folder=there.run_folder,
            modules=str(Path(there.blobs) / modules.name) if modules else "",
            cwd=str(Path.cwd()) if cluster.is_elsewhere else "",
            options=request.options if resume is None else _resuming(request.options, Path(there.blobs) / resume.name),
            names=request.names,
            parts=parts,
            collect=request.collect,
        )
        specs.append(spec)
    return specs


def run_started(request: RunRequest, run_id: str, group: ReadyGroup) -> RunStarted:
    return RunStarted(
        time=time.time(),
        run_id=run_id,
        mode="train" if request.mode == "fit" else request.mode,
        num_nodes=group.topology.num_nodes,
        devices=group.topology.devices,
        backend=group.spec.backend,
        accelerator=group.accelerator,
        simulated=any(assignment.simulated for assignment in group.assignments),
        workers=tuple(assignment.worker for assignment in group.assignments),
        device_names=group.device_names,
        pids=tuple(group.identity(rank).pid for rank in range(group.topology.world_size)),
    )


def uses_of_a_fit(request: RunRequest) -> str:
    """A training cell uses the parts of its fit even where it does not write their names."""
    names = request.names
    parts = (names.model, names.train_loader, names.val_loader, names.loss_fn, names.optimizer) if request.mode == "train" else ()
    return "".join(f"\n{name}" for name in parts)


def parts_spoken_of(request: RunRequest, namespace: Mapping[str, Any]) -> frozenset[str]:
    """Optional parts that the cell names; a validation loader of the notebook counts too.

    The ranks may have others from an earlier cell, such as a scheduler of an optimizer that is no longer used.
    """
    names = request.names
    spoken_of = free_names(request.python) | bound_names(request.python)
    return frozenset(
        name for name in names.optional if name in spoken_of or (name == names.val_loader and namespace.get(name) is not None)
    )


def _modules(request: RunRequest, cluster: Cluster) -> Path | None:
    """The user's own modules as a file to send, for engines that were not started beside them."""
    if not cluster.is_elsewhere or not request.sync:
        return None
    packed = archive(Path.cwd(), request.python)
    if packed is None:
        return None
    path = cluster.blobs / packed[0]
    path.write_bytes(packed[1])
    return path


def _resume_file(request: RunRequest, run_id: str, cluster: Cluster) -> Path | None:
    """A checkpoint that lies on this machine, under a name to send it by; another machine's is left to the ranks."""
    asked, folder = request.options.resume, request.options.resume_dir or request.options.checkpoint_dir
    if not cluster.is_elsewhere or asked is None:
        return None
    path = Path(folder) / f"{asked}.pt" if folder and asked in ("last", "best") else Path(asked).expanduser()
    if not path.is_file():
        return None
    copy = cluster.blobs / f"resume-{run_id}.pt"
    copy.write_bytes(path.read_bytes())
    return copy


def _resuming(options: FitOptions, path: Path) -> FitOptions:
    return replace(options, resume=str(path), resume_dir=None)
