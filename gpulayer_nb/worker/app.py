"""The supervisor's own line to the cluster: an ipyparallel engine without a device.

Runs in the supervisor's process. Owns the answers to the worker requests and the word to the hub when an engine dies.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ipyparallel.engine.app as engine_app
import zmq
from ipyparallel.engine.kernel import IPythonParallelKernel
from jupyter_client.session import Session
from traitlets import Any as AnyTrait
from traitlets import default

from gpulayer_nb.link.ipv6 import allow_ipv6, allow_ipv6_here
from gpulayer_nb.no_debugger import leave_debugger_out
from gpulayer_nb.records import wire
from gpulayer_nb.records.connection_file import is_ipv6, url_of
from gpulayer_nb.records.record import EngineDied, encode
from gpulayer_nb.worker.answers import BUFFERS, Answers
from gpulayer_nb.worker.supervisor import Supervisor

BEAT_SECONDS = 1.0
_UNREGISTER_MILLISECONDS = 1000  # to send a few words to a controller that may be out of reach


class WorkerKernel(IPythonParallelKernel):  # type: ignore[misc]  # ipyparallel has no type hints
    """Answers the worker requests on the control channel."""

    control_msg_types = [*IPythonParallelKernel.control_msg_types, *wire.WORKER_REQUESTS, *wire.AGENT_REQUESTS]
    answers: Answers

    @property
    def _supports_kernel_subshells(self) -> bool:
        return False

    def __init__(self, **kwargs: Any) -> None:
        for request in (*wire.WORKER_REQUESTS, *wire.AGENT_REQUESTS):
            setattr(self, request, self._answer)  # ipykernel looks handlers up by message type
        super().__init__(**kwargs)

    def _answer(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        request = parent["header"]["msg_type"]
        reply = self.answers.answer(request, parent["content"], parent.get("buffers", ()))
        buffers = reply.pop(BUFFERS, [])
        content = {"status": "ok", **reply}
        self.session.send(stream, f"{request}_reply", content=content, parent=parent, ident=ident, buffers=buffers)

    def beat(self, left: str = "") -> None:
        """One word to every client that this worker is there, and that the controller passes words on.

        Args:
            left: why it ends; its last word.
        """
        self.session.send(
            self.iopub_socket,
            wire.WORKER_BEAT,
            content={"worker": self.answers.worker, **({"left": left} if left else {})},
            parent={},
            ident=wire.BEAT_TOPIC.encode(),
        )

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

    def init_signal(self) -> None:
        """What signals mean is settled before: they end the supervisor, not this line alone."""

    async def complete_registration(self, msg: Any, connect: Any, maybe_tunnel: Any) -> None:
        await super().complete_registration(msg, connect, maybe_tunnel)
        self.kernel.answers = Answers(self.supervisor)
        self.supervisor.on_death = self._on_death
        self.supervisor.on_leave = self._on_leave
        threading.Thread(target=self._beat, name="gpulayer-beat", daemon=True).start()

    def _beat(self) -> None:
        while not self.supervisor.ended.wait(BEAT_SECONDS):
            self.kernel.beat()
            self.supervisor.end_silent_claims()

    def _on_death(self, died: EngineDied) -> None:
        self.kernel.publish(died)
        hub_id = self.supervisor.hub_id(died.pid)
        if hub_id is not None:
            unregister(json.loads(self.supervisor.folder.engine_file.read_text()), [hub_id])

    def _on_leave(self, why: str) -> Callable[[], None]:
        """Says so at once; what is returned tells the hub, after the engines have ended."""
        self.kernel.beat(why)
        info = json.loads(self.supervisor.folder.engine_file.read_text())  # it will be gone
        return functools.partial(unregister, info, [*self.supervisor.hub_ids(), self.id])

    def start(self) -> None:
        try:
            super().start()
        except RuntimeError as error:
            # as in the engine: ipyparallel 9.2 with ipykernel 7 raises this on SIGTERM
            if "Event loop stopped" not in str(error):
                raise


def unregister(info: dict[str, Any], hub_ids: Sequence[int]) -> None:
    """Tells the hub that engines are gone: it would notice only when their heartbeats stay away, seconds later.

    Args:
        info: the engines' connection file.
    """
    session = Session(
        key=info["key"].encode(), signature_scheme=info["signature_scheme"], packer=info["pack"], unpacker=info["unpack"]
    )
    context = zmq.Context()
    socket: Any = context.socket(zmq.DEALER)
    socket.linger = _UNREGISTER_MILLISECONDS
    if info.get("curve_serverkey"):
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = info["curve_serverkey"].encode()
    allow_ipv6(socket, info)
    socket.connect(url_of(info, "registration"))
    for hub_id in hub_ids:
        session.send(socket, "unregistration_request", content={"id": hub_id})
    socket.close()
    context.term()  # waits until all is sent, no longer than the linger


def serve(supervisor: Supervisor) -> None:
    """Answers requests in this process until it is told to end."""
    engine_app.Kernel = WorkerKernel  # IPEngine names its kernel class through this module global only
    leave_debugger_out()
    if is_ipv6(json.loads(supervisor.folder.engine_file.read_text())):
        allow_ipv6_here()
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
