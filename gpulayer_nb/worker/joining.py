"""A machine joins a cluster: what `gpulayer worker start` does.

Runs in a terminal, a batch job, a pod or under ssh, one per machine; this process is the supervisor. When it ends, however it
ends, its engines end too. Owns the worker's folder and the reasons for not joining.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer_nb import process
from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.link.address import address_towards
from gpulayer_nb.plan.addresses import choose_address, endpoint, plain
from gpulayer_nb.plan.topology import count
from gpulayer_nb.records import wire
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.connection_file import controller_address, read_if_whole, with_address
from gpulayer_nb.worker.interfaces import interfaces
from gpulayer_nb.worker.lease import Lease
from gpulayer_nb.worker.probe import ProbePort
from gpulayer_nb.worker.standard_input import SIGN, end_when_it_closes, read_connection
from gpulayer_nb.worker.supervisor import Place, Supervisor

FILE_SECONDS = 60.0  # the controller may just be starting, as in a batch job
_REACH_SECONDS = 5.0
_NO_WAY_YET = (errno.EHOSTUNREACH, errno.ENETUNREACH)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wishes:
    """What the user gave; `devices` None is for one engine a GPU, or a single one without GPUs."""

    controller: Path | None = None
    devices: int | None = None
    address: str | None = None
    name: str | None = None
    accelerator: str = "auto"


def join(wishes: Wishes, say: Say) -> int:
    """Serves the cluster until it is told to end; the exit code.

    Raises:
        GpuLayerError: it cannot join; says why.
    """
    info = _connection(wishes.controller, say)
    controller = controller_address(info)
    wanted = plain(wishes.address) if wishes.address else None
    address, interface = choose_address(wanted, address_towards(controller), controller, interfaces())
    _reach(info, controller)
    key = wire.new_worker_key(wishes.name or _host_name())
    port = ProbePort(address)
    devices = wishes.devices if wishes.devices is not None else _devices(wishes.accelerator)
    folder = ClusterFolder.create(f"worker-{key.replace('~', '-')}-{os.getpid()}")
    folder.add_owner(os.getpid(), process.start_ticks(os.getpid()))
    with open(os.open(folder.engine_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(info, file)
    process.adopt_orphans()
    place = Place(address, interface, devices, wishes.accelerator, port.port, port.token)
    supervisor = Supervisor(key, folder, place)
    supervisor.start(with_controller=False)
    _end_with_signals(supervisor)
    if str(wishes.controller) == SIGN:
        end_when_it_closes(supervisor.ended)
    threading.Thread(target=_end_when_told, args=(supervisor,), daemon=True).start()
    Lease(info, supervisor.fail).start()
    say(
        f"worker {wire.name_of_key(key)}: {count(devices, 'device')} at {address} ({interface}), controller {controller}. "
        "It ends with this process."
    )
    from gpulayer_nb.worker.app import serve

    serve(supervisor)
    supervisor.ended.set()
    threading.Event().wait(30.0)  # the thread above ends this process
    return 1


def _connection(path: Path | None, say: Say) -> dict[str, Any]:
    if path is None:
        if text := os.environ.pop("IPP_CONNECTION_INFO", None):  # from an ipyparallel launcher; a key is nothing for ranks
            return with_address(json.loads(text))
        raise UsageError(
            "Which controller? Next: `gpulayer controller start` on one machine shows the line to paste here; "
            "it has `--controller FILE`."
        )
    if str(path) == SIGN:
        return with_address(read_connection())
    deadline = time.monotonic() + FILE_SECONDS
    said = False
    while (info := read_if_whole(path)) is None:
        if not said:
            say(f"waiting for {path} …")
            said = True
        if time.monotonic() > deadline:
            raise ClusterError(
                f"No controller file {path} in {FILE_SECONDS:.0f} s. Next: start the controller, or copy its file here."
            )
        time.sleep(0.1)
    if "registration" not in info or "hb_ping" not in info:
        raise UsageError(
            f"{path} is not the engines' connection file of a controller. Next: give the `--controller` that "
            "`gpulayer controller start` has shown; its name ends in `-engine.json`."
        )
    return with_address(info)


def _reach(info: dict[str, Any], controller: str) -> None:
    """The clear word now instead of ipyparallel's time-out a minute later.

    A way that is only just coming up (a cable, a route, an address) is waited for.
    """
    deadline = time.monotonic() + _REACH_SECONDS
    while True:
        left = deadline - time.monotonic()
        try:
            socket.create_connection((controller, info["registration"]), timeout=max(left, 0.1)).close()
            return
        except OSError as error:
            if error.errno in _NO_WAY_YET and left > 0:
                time.sleep(0.2)
                continue
            raise ClusterError(
                f"No controller answers at {endpoint(controller, info['registration'])} ({error.strerror or error}). "
                "Next: see whether it is running and its ports are open; its file may be of one that has ended."
            ) from None


def _host_name() -> str:
    """The machine's name, as far as it can be part of a worker's."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname().partition(".")[0])
    return name.strip("-._") or "worker"


def _devices(accelerator: str) -> int:
    """One engine a GPU; the GPUs are counted without torch, which only the engines load."""
    if accelerator in ("auto", "cuda"):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            return len([part for part in visible.split(",") if part.strip()]) or 1
        gpus = Path("/proc/driver/nvidia/gpus")
        if gpus.is_dir():
            return len(list(gpus.iterdir())) or 1
    return 1


def _end_with_signals(supervisor: Supervisor) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup's wish stands
            signal.signal(number, lambda number, _: supervisor.leave(by=signal.Signals(number).name))


def _end_when_told(supervisor: Supervisor) -> None:
    supervisor.ended.wait()
    try:
        tell_the_hub = supervisor.on_leave(supervisor.why_ended())
    except Exception:  # noqa: BLE001  whoever is not told knows us by our silence; engines must end now
        tell_the_hub = None
    supervisor.end()
    if tell_the_hub is not None:
        with contextlib.suppress(Exception):
            tell_the_hub()
    name = wire.name_of_key(supervisor.worker)
    with contextlib.suppress(OSError):  # whoever read this may have gone: a broken pipe must not keep us
        if supervisor.message:
            print(f"gpulayer: worker {name} ended with its engines: {supervisor.message}.", file=sys.stderr, flush=True)
        else:
            print(f"worker {name}: ended{f', asked to by {supervisor.asked_by}' if supervisor.asked_by else ''}.", flush=True)
    os._exit(1 if supervisor.message else 0)
