"""Many workers in one process: `python fake_workers.py ENGINE_FILE COUNT`.

Each registers, beats its heart and answers WORKER_STATE like a real supervisor; none has engines. Prints `ready` once all are in.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import sys
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import Session

from gpulayer_nb.records import wire
from gpulayer_nb.records.connection_file import url_of
from gpulayer_nb.records.worker_state import WorkerState


class FakeWorker:
    def __init__(self, number: int, context: zmq.Context[Any], info: dict[str, Any], session: Session) -> None:
        self._context, self._info, self._session = context, info, session
        self.key = wire.new_worker_key(f"w{number}")
        self.uuid = wire.new_worker_uuid(self.key).encode()
        facts = {"torch": "2.13.0", "python": "3.11", "backends": ["gloo"]}
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        self._state = WorkerState(
            worker=self.key, pid=1, phase="up", address=address, interface="eth0", host=f"w{number}", devices=8, facts=facts
        )
        self.registration = self._socket(zmq.DEALER, "registration", self.uuid)
        session.send(self.registration, "registration_request", content={"uuid": self.uuid.decode()})

    def _socket(self, kind: int, name: str, identity: bytes | None = None) -> Any:
        made: Any = self._context.socket(kind)
        made.linger = 0
        if identity is not None:
            made.identity = identity
        if kind == zmq.SUB:
            made.subscribe(b"")
        made.connect(url_of(self._info, name))
        return made

    def join(self) -> None:
        """The controller has taken it: its heart and its control line."""
        self.registration.recv_multipart()
        self.ping, self.pong = self._socket(zmq.SUB, "hb_ping"), self._socket(zmq.DEALER, "hb_pong", self.uuid)
        self.control = self._socket(zmq.ROUTER, "control", self.uuid)

    def beat(self) -> None:
        self.pong.send_multipart(self.ping.recv_multipart())

    def answer(self) -> None:
        identities, frames = self._session.feed_identities(self.control.recv_multipart())
        message = self._session.deserialize(frames)
        kind = message["header"]["msg_type"]
        content = {"status": "ok", "state": dataclasses.asdict(self._state)}
        self._session.send(self.control, f"{kind}_reply", content=content, parent=message, ident=identities)


def main(engine_file: str, count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    info = json.loads(Path(engine_file).read_text())
    context: zmq.Context[Any] = zmq.Context(io_threads=2)
    context.set(zmq.MAX_SOCKETS, 20_000)
    session = Session(
        key=info["key"].encode(), signature_scheme=info["signature_scheme"], packer=info["pack"], unpacker=info["unpack"]
    )
    workers = [FakeWorker(number, context, info, session) for number in range(count)]
    poller = zmq.Poller()
    deeds = {}
    for worker in workers:
        poller.register(worker.registration, zmq.POLLIN)
        deeds[worker.registration] = worker.join
    waiting = count
    while True:
        for socket, _ in poller.poll():
            deed = deeds[socket]
            deed()
            owner: FakeWorker = deed.__self__
            if socket is owner.registration:
                poller.unregister(socket)
                for new, what in ((owner.ping, owner.beat), (owner.control, owner.answer)):
                    poller.register(new, zmq.POLLIN)
                    deeds[new] = what
                waiting -= 1
                if not waiting:
                    print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
