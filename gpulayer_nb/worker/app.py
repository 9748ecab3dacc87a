"""The supervisor's own line to the cluster: an ipyparallel engine without a device.

Runs in the supervisor's process. Owns the answers to the worker requests and the word to the hub when an engine dies.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import ipyparallel.engine.app as engine_app
import zmq
from ipyparallel.engine.kernel import IPythonParallelKernel
from jupyter_client.session import Session
from traitlets import Any as AnyTrait
from traitlets import default

from gpulayer_nb.records import wire
from gpulayer_nb.records.record import EngineDied, encode
from gpulayer_nb.worker.supervisor import Supervisor


class WorkerKernel(IPythonParallelKernel):  # type: ignore[misc]  # ipyparallel has no type hints
    """Answers START_ENGINES, KILL_ENGINES and WORKER_STATE on the control channel."""

    control_msg_types = [*IPythonParallelKernel.control_msg_types, *wire.WORKER_REQUESTS]
    supervisor: Supervisor

    @property
    def _supports_kernel_subshells(self) -> bool:
        return False

    def __init__(self, **kwargs: Any) -> None:
        for request in wire.WORKER_REQUESTS:
            setattr(self, request, self._answer)  # ipykernel looks handlers up by message type
        super().__init__(**kwargs)

    def _answer(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        request, content = parent["header"]["msg_type"], parent["content"]
        reply: dict[str, Any] = {}
        if request == wire.START_ENGINES:
            self.supervisor.start_engines(content["slots"], content["nodes"], content["devices"])
        elif request == wire.KILL_ENGINES:
            reply["killed"] = self.supervisor.kill_engines(content["slots"])
        else:
            reply["state"] = dataclasses.asdict(self.supervisor.state())
        self.session.send(stream, f"{request}_reply", content={"status": "ok", **reply}, parent=parent, ident=ident)

    def publish(self, died: EngineDied) -> None:
        content = {"run_id": "", "rank": -1, "seq": -1, "records": [encode(died)]}
        self.session.send(
            self.iopub_socket, wire.RECORDS_MESSAGE, content=content, parent={}, ident=f"{wire.RECORDS_TOPIC}.worker".encode()
        )


class WorkerApp(engine_app.IPEngine):  # type: ignore[misc]  # ipyparallel has no type hints
    supervisor = AnyTrait()
    out_stream_factory = None  # what the supervisor prints goes to its log

    @default("ident")
    def _default_ident(self) -> str:
        return wire.new_worker_uuid(self.supervisor.worker)

    async def complete_registration(self, msg: Any, connect: Any, maybe_tunnel: Any) -> None:
        await super().complete_registration(msg, connect, maybe_tunnel)
        self.kernel.supervisor = self.supervisor
        self.supervisor.on_death = self._on_death

    def _on_death(self, died: EngineDied) -> None:
        self.kernel.publish(died)
        hub_id = self.supervisor.hub_id(died.pid)
        if hub_id is not None:
            unregister(self.supervisor.folder.engine_file, hub_id)

    def start(self) -> None:
        try:
            super().start()
        except RuntimeError as error:
            # as in the engine: ipyparallel 9.2 with ipykernel 7 raises this on SIGTERM
            if "Event loop stopped" not in str(error):
                raise


def unregister(engine_file: Path, hub_id: int) -> None:
    """Tells the hub that an engine is gone: it would notice only when its heartbeats stay away, seconds later."""
    info = json.loads(engine_file.read_text())
    session = Session(
        key=info["key"].encode(), signature_scheme=info["signature_scheme"], packer=info["pack"], unpacker=info["unpack"]
    )
    socket: Any = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 3000  # milliseconds
    if info.get("curve_serverkey"):
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = info["curve_serverkey"].encode()
    socket.connect(f"{info['interface']}:{info['registration']}")
    session.send(socket, "unregistration_request", content={"id": hub_id})
    socket.close()


def serve(supervisor: Supervisor) -> None:
    """Answers requests in this process until it is told to end."""
    engine_app.Kernel = WorkerKernel  # IPEngine names its kernel class through this module global only
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    WorkerApp.launch_instance(
        argv=[
            f"--file={supervisor.folder.engine_file}",
            f"--profile-dir={supervisor.folder.path}",
            "--IPEngine.timeout=60",
            "--IPEngine.enable_nanny=False",
            "--log-level=40",
        ],
        supervisor=supervisor,
    )
