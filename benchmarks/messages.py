"""What one rank's status message costs the kernel (signature, JSON, history), with 4 ranks and with 1,024.

Every rank sends one a second whatever it does, so this and the number of ranks say how busy the kernel's reading thread is. There
is no peer: the ratio shows that the cost of a message does not grow with the number of ranks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from goal import Goal
from interleave import Benchmark, Measure
from jupyter_client.session import Session

from gpulayer_nb.client.listener import RunListener
from gpulayer_nb.records import wire
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankStatus, RunStarted, encode

MESSAGES = 4096


class Reader:
    """A kernel's reading side of a run with this many ranks."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._session = Session(key=b"benchmark")
        self._history = RunHistory()
        self._history.apply(
            RunStarted(time=time.time(), run_id="bench", mode="train", num_nodes=ranks // 4, devices=4, backend="gloo",
                       accelerator="cpu", simulated=True,
                       workers=("local",) * ranks, device_names=("cpu",) * ranks, pids=tuple(range(ranks)))
        )  # fmt: skip
        self._listener = RunListener("bench", {rank: rank for rank in range(ranks)}, self._history, lambda: None)
        self._sent = 0

    def microseconds(self) -> float:
        """Processor time of one message."""
        frames = [self._frames(index) for index in range(self._sent, self._sent + MESSAGES)]
        self._sent += MESSAGES
        began = time.process_time()
        for frame in frames:
            _, parts = self._session.feed_identities(frame)
            self._listener.hear(wire.RECORDS_TOPIC, self._session.deserialize(parts))
        return 1e6 * (time.process_time() - began) / MESSAGES

    def _frames(self, index: int) -> list[bytes]:
        rank, seq = index % self._ranks, index // self._ranks
        status = RankStatus(
            time=time.time(), rank=rank, state="running", global_step=seq, samples_per_second=1e3, memory_bytes=2**28
        )
        content = {"run_id": "bench", "rank": rank, "seq": seq, "records": [encode(status)]}
        message = self._session.msg(wire.RECORDS_MESSAGE, content=content, parent={})
        return [b"topic", *self._session.serialize(message)]


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    yield {"4 ranks": Reader(4).microseconds, "1,024 ranks": Reader(1024).microseconds}


BENCHMARK = Benchmark(
    name="messages", unit="µs of processor time per message", peer="4 ranks", contenders=contenders,
    goals=(Goal(contender="1,024 ranks", limit=1.5, alarm=3.0),),
)  # fmt: skip
