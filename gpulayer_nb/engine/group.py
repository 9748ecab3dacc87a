"""This rank's process group: made once, kept between cells, cut when a run fails.

Runs in each rank's process. Owns the store, the group's connections and torchrun's environment variables.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore  # where torch's own stubs have them
from torch.distributed import distributed_c10d

from gpulayer_nb.engine import sockets
from gpulayer_nb.errors import ClusterError
from gpulayer_nb.plan.addresses import endpoint
from gpulayer_nb.plan.topology import RankPlace, Topology
from gpulayer_nb.records.run_spec import GroupSpec

# Read before anything is replaced: ours call these.
_init_process_group = dist.init_process_group
_destroy_process_group = dist.destroy_process_group
_new_group = dist.new_group

STORE_SECONDS = 20.0  # to reach rank 0's rendezvous
ARRIVAL_SECONDS = 30.0  # for all ranks to come there: whoever did not reach it has said so by then
CONNECT_SECONDS = 25.0  # for every pair of ranks to connect then; gloo alone would try for five times a collective's limit
_UNREACHABLE = re.compile(r"tim(ed|e) ?out|refused|failed to connect|unreachable|no route|unable to find address", re.IGNORECASE)


class GroupKeeper:
    """Holds the default process group of this rank."""

    def __init__(self) -> None:
        self._spec: GroupSpec | None = None
        self._topology: Topology | None = None
        self._place: RankPlace | None = None
        self._store: Store | None = None
        self._own_store: TCPStore | None = None  # rank 0 serves it
        self._own_store_sockets: sockets.Sockets = {}
        self._inits = 0  # groups made in the present spec: each needs its own keys in the store
        self._connecting_from: sockets.Sockets | None = None
        self._connections: sockets.Sockets = {}
        self._to_the_store: sockets.Sockets = {}  # among these
        self._broken = False
        self._gave_up = False  # the limit for connecting has passed
        self._nccl_lock = threading.Lock()
        self._retired: list[Any] = []
        self._replaced: dict[str, str | None] = {}  # variables that the last run has set, as they were

    def open_store(self, host: str) -> int:
        """Rank 0: serves a new store on a free port of `host`; returns the port."""
        before = sockets.open_sockets()
        # By itself the store listens on every address of the machine, and anyone who reaches it may read and write.
        listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024)
        port = listening.getsockname()[1]
        self._own_store = TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach())
        self._own_store_sockets = sockets.opened_since(before)
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
        self._inits, self._broken, self._gave_up, self._connections, self._store = 0, False, False, {}, None
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
                with self._connecting(f"rank {place.rank} did not reach the rendezvous of rank 0", STORE_SECONDS + 2):
                    self._store = self._reach_store(spec, place)
                self._to_the_store = {**self._own_store_sockets, **sockets.opened_since(before)}
            prefix = f"{spec.key}/{self._inits}"
            _wait_for_all(PrefixStore(f"{prefix}/arrived", self._store), place.rank, topology.world_size)
            with self._connecting(f"rank {place.rank} did not reach every other rank", CONNECT_SECONDS):
                _init_process_group(
                    spec.backend,
                    store=PrefixStore(prefix, self._store),
                    rank=place.rank,
                    world_size=topology.world_size,
                    timeout=timeout,
                )
        finally:
            self._connecting_from = None
        self._inits += 1
        self._connections = sockets.opened_since(before)

    def _reach_store(self, spec: GroupSpec, place: RankPlace) -> Store:
        if place.rank == 0 and self._own_store is not None and self._own_store.port == spec.master_port:
            return self._own_store
        limit = timedelta(seconds=min(STORE_SECONDS, spec.timeout_seconds))
        store = TCPStore(spec.master_addr, spec.master_port, is_master=False, timeout=limit, wait_for_workers=False)
        store.set_timeout(timedelta(seconds=spec.timeout_seconds))
        return store

    @contextmanager
    def _connecting(self, failing: str, limit_seconds: float) -> Iterator[None]:
        """Torch has waits without a limit in here: when time is up, what still waits is cut. An error then names addresses."""
        limit = threading.Timer(limit_seconds, self._give_up_connecting)
        limit.daemon = True
        limit.start()
        try:
            yield
        except RuntimeError as error:  # torch's own are
            if self._broken or not (self._gave_up or _UNREACHABLE.search(str(error))):
                raise  # others have failed, or we were cut
            raise ClusterError(self._unreachable(failing, error)) from error
        finally:
            limit.cancel()

    def _give_up_connecting(self) -> None:
        connecting_from = self._connecting_from
        if connecting_from is not None:
            self._gave_up = True
            self._cut({**self._own_store_sockets, **sockets.opened_since(connecting_from)})

    def _unreachable(self, failing: str, error: RuntimeError) -> str:
        spec = self._spec
        on = f" on {spec.interface}" if spec and spec.interface else ""
        where = f" at {endpoint(spec.master_addr, spec.master_port)}{on}" if spec else ""
        said = (str(error).strip().splitlines() or [""])[0][:200]
        return (
            f"The ranks could not connect: {failing}{where} ({said}). Nothing was run. "
            "Next: see that no firewall closes ports between the workers and that their addresses are right, then run again."
        )

    def abort(self) -> int:
        """Cuts every connection of the group, also while it is being made; any thread may call. Returns how many were cut."""
        self._broken = True
        connecting_from = self._connecting_from
        if connecting_from is not None:
            return self._cut({**self._own_store_sockets, **sockets.opened_since(connecting_from)})
        if self._spec is not None and self._spec.backend == "nccl":
            self._abort_nccl()
        sockets.settle(self._connections)
        return self._cut(self._connections)

    def _cut(self, connections: sockets.Sockets) -> int:
        return sockets.cut(connections, self._to_the_store)

    def refuse_if_cut(self) -> None:
        """Before a collective: one that begins while the group is being cut would be half sent.

        Raises:
            RuntimeError: the group was cut.
        """
        if self._broken and self._connecting_from is None:
            raise RuntimeError("gloo: the connections of this rank's group were cut")

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
        self._set_own(spec.env)
        _check_interface(os.environ.get("GLOO_SOCKET_IFNAME", ""))

    def _set_own(self, wanted: Mapping[str, str]) -> None:
        """The variables that the user asked for; what an earlier run asked for is as it was before it."""
        for name, value in self._replaced.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._replaced = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)


def _check_interface(names: str) -> None:
    """Gloo itself would say it on one rank, and let the others wait.

    Raises:
        ClusterError: this machine has no such network interface; lists those it has.
    """
    own = [name for _, name in socket.if_nameindex()]
    missing = [name for name in names.split(",") if name and name not in own]
    if missing:
        raise ClusterError(
            f"GLOO_SOCKET_IFNAME is {names}, but {socket.gethostname()} has no network interface {', '.join(missing)}; "
            f"it has {', '.join(own)}. Next: name one of these, or leave the variable out."
        )


def _wait_for_all(store: Store, rank: int, world_size: int) -> None:
    """Every rank has come to the rendezvous when this returns. An interrupt or a cut connection ends the wait at once.

    Raises:
        ClusterError: some did not come; names them.
    """
    store.set(str(rank), "")
    missing, pause, deadline = [str(other) for other in range(world_size)], 0.001, time.monotonic() + ARRIVAL_SECONDS
    while missing := [other for other in missing if not store.check([other])]:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"Rank {', '.join(missing[:8])} did not come to the rendezvous in {ARRIVAL_SECONDS:.0f} s. Nothing was run. "
                "Next: run the cell again."
            )
        time.sleep(pause)
        pause = min(0.05, 2 * pause)


def device_of(accelerator: str, place: RankPlace) -> torch.device:
    """The device of a rank: `cuda:{local_rank}`."""
    if accelerator == "cuda":
        torch.cuda.set_device(place.local_rank)
        return torch.device("cuda", place.local_rank)
    return torch.device(accelerator)
