"""What a supervisor does for whoever asks it on the control channel.

Runs in the supervisor's process, on its control thread. Owns the table from request to deed; the deeds are others'. A request
that cannot be done is answered with `{"refused": why}`.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpulayer_nb.records import wire
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.worker.probe import Target, probe
from gpulayer_nb.worker.received_files import ReceivedFiles
from gpulayer_nb.worker.supervisor import Supervisor

_ANSWERED_SECONDS = 0.2  # until the answer of a worker that ends is on its way
BUFFERS = "buffers"  # what an answer has under this name travels apart from the rest
Answer = Callable[[dict[str, Any], Sequence[Any]], dict[str, Any]]


class Answers:
    """`answer(request, content, buffers)`; add to `table` what another part of the worker does."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._files: dict[str, ReceivedFiles] = {}  # by the client's token
        self.table: dict[str, Answer] = {
            wire.START_ENGINES: self._start,
            wire.KILL_ENGINES: self._kill,
            wire.WORKER_STATE: self._state,
            wire.CLAIM: self._claim,
            wire.RENEW: self._renew,
            wire.RELEASE: self._release,
            wire.PROBE: self._probe,
            wire.OFFER_FILES: self._offer_files,
            wire.PUT_FILE: self._put_file,
            wire.GET_FILE: self._get_file,
            wire.END_WORKER: self._end,
        }

    @property
    def worker(self) -> str:
        return self._supervisor.worker

    def answer(self, request: str, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        try:
            if request in wire.AGENT_REQUESTS:
                return self._supervisor.agents.answer(request, content)
            return self.table[request](content, buffers)
        except Exception as error:  # noqa: BLE001  without an answer the client would wait for its time-out
            traceback.print_exc()
            return {"refused": f"{type(error).__name__}: {error}"}

    def _start(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        token, slots = content.get("claim"), content["slots"]
        if token is not None and not self._supervisor.claims.allows(token, slots):
            return {"refused": "another client has these engines"}
        self._supervisor.start_engines(slots, content["nodes"], content["devices"], content.get("gpus"))
        return {}

    def _kill(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        return {"killed": self._supervisor.kill_engines(content["slots"])}

    def _state(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        return {"state": dataclasses.asdict(self._supervisor.state())}

    def _claim(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        refused = self._supervisor.claims.take(content["token"], content["by"], content["slots"], time.monotonic())
        return {"refused": refused} if refused else {}

    def _renew(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        return {} if self._supervisor.claims.renew(content["token"], time.monotonic()) else {"refused": "it has no claim"}

    def _release(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        return {"killed": self._supervisor.end_claim(content["token"])}

    def _probe(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        return {"failed": probe([Target(*target) for target in content["targets"]], content["seconds"])}

    def _end(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        if self._supervisor.has_controller:
            return {"refused": "this worker is its cluster. Next: end the cluster"}
        threading.Timer(_ANSWERED_SECONDS, self._supervisor.leave, (content["by"],)).start()
        return {}

    def _offer_files(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        files = self._files_of(content["client"])
        missing = files.missing(content["files"], content["keep"])
        sees = RunFolder(Path(content["run_folder"])).facts.exists()
        return {"folder": str(files.folder), "missing": missing, "sees": sees}

    def _put_file(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        files = self._files_of(content["client"])
        try:
            files.put(content["name"], content["offset"], content["size"], buffers[0])
        except OSError as error:
            return {"refused": f"{error.strerror or error} in {files.folder}"}
        return {}

    def _get_file(self, content: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
        """A run's file, for the client it ran for: who may ask may run any code here anyway."""
        try:
            with open(content["path"], "rb") as file:
                file.seek(content["offset"])
                return {"size": os.fstat(file.fileno()).st_size, BUFFERS: [file.read(content["size"])]}
        except OSError as error:
            return {"refused": f"{error.strerror}: {content['path']}"}

    def _files_of(self, client: str) -> ReceivedFiles:
        if client not in self._files:
            self._files[client] = ReceivedFiles(self._supervisor.files_of(client))
        return self._files[client]
