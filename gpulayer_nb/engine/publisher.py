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

_KEPT_BATCHES = 2000  # some minutes of a run; the whole run is in the folder


class Publisher:
    """Numbers and publishes one rank's records of one run. Any thread may publish."""

    def __init__(self, session: Any, socket: Any, run_id: str, rank: int, records_file: Path) -> None:
        self._session, self._socket = session, socket
        self._run_id, self._rank = run_id, rank
        self._lock = threading.Lock()
        self._next = 0
        self._kept: deque[dict[str, Any]] = deque(maxlen=_KEPT_BATCHES)
        self._file: TextIO | None = records_file.open("a", buffering=1)

    @property
    def run_id(self) -> str:
        return self._run_id

    def publish(self, *records: Record) -> None:
        now = time.time()
        encoded = [encode(record if record.time else dataclasses.replace(record, time=now)) for record in records]
        with self._lock:
            content = {"run_id": self._run_id, "rank": self._rank, "seq": self._next, "records": encoded}
            self._next += 1
            self._kept.append(content)
            self._write(content)
            # An empty parent: with one, the hub would store every message and log a warning for each.
            self._session.send(
                self._socket, RECORDS_MESSAGE, content=content, parent={}, ident=f"{RECORDS_TOPIC}.{self._run_id}".encode()
            )

    def _write(self, content: dict[str, Any]) -> None:
        """A full disk ends the keeping of records, not the run."""
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(content) + "\n")
        except OSError as error:
            self._drop_file()
            text = f"The run folder takes no more ({error.strerror}): from here on the run is in this notebook only."
            content["records"].append(encode(Notice(time=time.time(), text=text, level="warning", rank=self._rank)))

    def _drop_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # closing writes what is left in the buffer
                file.close()

    def since(self, seq: int) -> list[dict[str, Any]]:
        """The kept batches numbered `seq` and later."""
        with self._lock:
            return [batch for batch in self._kept if batch["seq"] >= seq]

    def close(self) -> None:
        with self._lock:
            self._drop_file()
