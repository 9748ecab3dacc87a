"""This rank's process group: made once, kept between cells, cut when a run fails.

Runs in each rank's process. Owns the store, the group's connections and torchrun's environment variables.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore  # where torch's own stubs have them
from torch.distributed import distributed_c10d

from gpulayer_nb.engine import sockets
from gpulayer_nb.plan.topology import RankPlace, Topology
from gpulayer_nb.records.run_spec import GroupSpec

# Read before anything is replaced: ours call these.
_init_process_group = dist.init_process_group
_destroy_process_group = dist.destroy_process_group
_new_group = dist.new_group


class GroupKeeper:
    """Holds the default process group of this rank."""

    def __init__(self) -> None:
        self._spec: GroupSpec | None = None
        self._topology: Topology | None = None
        self._place: RankPlace | None = None
        self._store: Store | None = None
        self._own_store: TCPStore | None = None  # rank 0 serves it
        self._inits = 0  # groups made in the present spec: each needs its own keys in the store
        self._connecting_from: sockets.Sockets | None = None
        self._connections: sockets.Sockets = {}
        self._broken = False
        self._nccl_lock = threading.Lock()
        self._retired: list[Any] = []

    def open_store(self, host: str) -> int:
        """Rank 0: serves a new store on a free port of `host`; returns the port."""
        self._own_store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return int(self._own_store.port)

    @property
    def is_up(self) -> bool:
        return dist.is_initialized() and not self._broken

    def ensure(self, spec: GroupSpec, topology: Topology, place: RankPlace) -> None:
        """The group of `spec` is up when this returns; one that is up already is kept."""
        self._set_environment(spec, topology, place)
        if self._spec is not None and self._spec.key == spec.key and self.is_up:
            return
        self._retire()
        self._spec, self._topology, self._place = spec, topology, place
        self._inits, self._broken, self._connections, self._store = 0, False, {}, None
        self._connect()

    def _connect(self) -> None:
        spec, topology, place = self._spec, self._topology, self._place
        if spec is None or topology is None or place is None:
            raise RuntimeError("no group was asked for yet")
        # Ranks that left an aborted init may have counted other groups than their peers: the count is part of the store's keys.
        distributed_c10d._world.group_count = 0
        if spec.backend == "nccl":
            # torch asks for it where _abort_process_group is used: its watchdog would end the process on an error or a time-out
            os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
        timeout = timedelta(seconds=spec.timeout_seconds)
        before = self._connecting_from = sockets.open_sockets()
        try:
            if self._store is None:
                if place.rank == 0 and self._own_store is not None and self._own_store.port == spec.master_port:
                    self._store = self._own_store
                else:
                    self._store = TCPStore(
                        spec.master_addr, spec.master_port, is_master=False, timeout=timeout, wait_for_workers=False
                    )
            _init_process_group(
                spec.backend,
                store=PrefixStore(f"{spec.key}/{self._inits}", self._store),
                rank=place.rank,
                world_size=topology.world_size,
                timeout=timeout,
            )
        finally:
            self._connecting_from = None
        self._inits += 1
        self._connections = sockets.opened_since(before)

    def abort(self) -> int:
        """Cuts every connection of the group, also while it is being made; any thread may call. Returns how many were cut."""
        self._broken = True
        connecting_from = self._connecting_from
        if connecting_from is not None:
            return sockets.cut(sockets.opened_since(connecting_from))
        if self._spec is not None and self._spec.backend == "nccl":
            self._abort_nccl()
        return sockets.cut(self._connections)

    def _abort_nccl(self) -> None:
        """NCCL has an abort of its own, which may be called from the control thread while the main thread waits; once a group."""
        with self._nccl_lock:
            if dist.is_initialized():
                distributed_c10d._abort_process_group()

    def _retire(self) -> None:
        """Puts the old group away.

        It is freed only when the group after the next one is made: freeing it within milliseconds of its last collective can
        dead-lock in torch 2.13 (its destructor joins a thread that waits for the GIL).
        """
        if dist.is_initialized():
            group = distributed_c10d._get_default_group()
            _destroy_process_group()
            self._retired = [group, *self._retired[:1]]

    # What a pasted torchrun script calls.

    def init_process_group(self, *args: Any, **kwargs: Any) -> None:
        """`dist.init_process_group` on a rank: the group that is up is the one asked for; after a destroy, a new one is made."""
        if not dist.is_initialized():
            self._connect()

    def destroy_process_group(self, group: Any = None) -> None:
        """`dist.destroy_process_group` on a rank."""
        if group is None or group is dist.group.WORLD:
            self._retire()
        else:
            _destroy_process_group(group)

    def new_group(self, *args: Any, **kwargs: Any) -> Any:
        """`dist.new_group` on a rank: its connections are cut with the others."""
        before = sockets.open_sockets()
        group = _new_group(*args, **kwargs)
        self._connections = {**self._connections, **sockets.opened_since(before)}
        return group

    def face_scripts(self) -> None:
        """From now on user code that sets up its own group meets this keeper."""
        for module in (dist, distributed_c10d):
            for name in ("init_process_group", "destroy_process_group", "new_group"):
                setattr(module, name, getattr(self, name))

    def _set_environment(self, spec: GroupSpec, topology: Topology, place: RankPlace) -> None:
        """The variables that torchrun sets, so that code written for it finds its place."""
        os.environ.update(
            RANK=str(place.rank),
            LOCAL_RANK=str(place.local_rank),
            GROUP_RANK=str(place.node_rank),
            WORLD_SIZE=str(topology.world_size),
            LOCAL_WORLD_SIZE=str(topology.devices),
            GROUP_WORLD_SIZE=str(topology.num_nodes),
            MASTER_ADDR=spec.master_addr,
            MASTER_PORT=str(spec.master_port),
            TORCHELASTIC_RUN_ID=spec.key,  # by this one Lightning knows that processes are there already
        )
        if spec.interface:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", spec.interface)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={spec.interface}")
        os.environ.update(spec.env)


def device_of(accelerator: str, place: RankPlace) -> torch.device:
    """The device of a rank: `cuda:{local_rank}`."""
    if accelerator == "cuda":
        torch.cuda.set_device(place.local_rank)
        return torch.device("cuda", place.local_rank)
    return torch.device(accelerator)
