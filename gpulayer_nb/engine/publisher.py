"""Sends a rank's records to whoever listens.

Runs in each rank's process. Owns their numbers, the recent past for those who come late, and the rank's file in the run folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO

from gpulayer_nb.records.record import Notice, Record, encode
from gpulayer_nb.records.wire import RECORDS_MESSAGE, RECORDS_TOPIC

KEPT_BYTES = 2 * 2**20  # half a minute of the fastest loop: who missed something asks within seconds; all of it is in the folder


class Publisher:
    """Numbers and publishes one rank's records of one run. Any thread may publish.

    A batch is made into JSON once, for the wire, the file and the recent past; as Python objects that past would take ten times
    the memory.
    """

    def __init__(self, session: Any, socket: Any, run_id: str, rank: int, records_file: Path) -> None:
        self._session, self._socket = session, socket
        self._run_id, self._rank = run_id, rank
        self._lock = threading.Lock()
        self._next = 0
        self._kept: deque[tuple[int, bytes]] = deque()  # number and JSON
        self._kept_bytes = 0
        self._file: TextIO | None = records_file.open("a", buffering=1)

    @property
    def run_id(self) -> str:
        return self._run_id

    def publish(self, *records: Record) -> None:
        now = time.time()
        encoded = [encode(record if record.time else dataclasses.replace(record, time=now)) for record in records]
        with self._lock:
            content = {"run_id": self._run_id, "rank": self._rank, "seq": self._next, "records": encoded}
            packed = self._written(content)
            self._keep(self._next, packed)
            self._next += 1
            # An empty parent: with one, the hub would store every message and log a warning for each.
            self._session.send(
                self._socket, RECORDS_MESSAGE, content=packed, parent={}, ident=f"{RECORDS_TOPIC}.{self._run_id}".encode()
            )

    def _written(self, content: dict[str, Any]) -> bytes:
        """The batch as JSON, which is in the file too. A full disk ends the keeping of records, not the run."""
        packed = json.dumps(content)
        if self._file is not None:
            try:
                self._file.write(packed + "\n")
            except OSError as error:
                self._drop_file()
                text = f"The run folder takes no more ({error.strerror}): from here on the run is in this notebook only."
                content["records"].append(encode(Notice(time=time.time(), text=text, level="warning", rank=self._rank)))
                packed = json.dumps(content)
        return packed.encode()

    def _keep(self, seq: int, packed: bytes) -> None:
        self._kept.append((seq, packed))
        self._kept_bytes += len(packed)
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft()[1])

    def _drop_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # closing writes what is left in the buffer
                file.close()

    def since(self, seq: int) -> list[dict[str, Any]]:
        """The kept batches numbered `seq` and later."""
        with self._lock:
            wanted = [packed for number, packed in self._kept if number >= seq]
        return [json.loads(packed) for packed in wanted]

    def close(self) -> None:
        with self._lock:
            self._drop_file()
