"""Routes what the tap reads to the run that is on.

Runs in the kernel, on the tap's thread. Owns the order of batches; writes into the run's history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpulayer_nb.client.run_keeper import RunKeeper
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankDone, RankFailed, RankOutput, decode
from gpulayer_nb.records.sequencer import Sequencer
from gpulayer_nb.records.wire import RECORDS_MESSAGE


class RunListener:
    """Hears one run.

    Args:
        ranks: rank of each engine, by ipyparallel's number: an engine's output carries nothing else.
        keeper: writes down what ranks on other machines cannot.

    Attributes:
        displays: what ranks displayed (plots, tables): (rank, MIME bundle, metadata).
    """

    def __init__(
        self,
        run_id: str,
        ranks: Mapping[int, int],
        history: RunHistory,
        wake: Callable[[], None],
        keeper: RunKeeper | None = None,
    ) -> None:
        self._keeper = keeper
        self._run_id, self._ranks, self._history, self._wake = run_id, dict(ranks), history, wake
        self._lock = threading.Lock()
        self._sequencers = {rank: Sequencer() for rank in self._ranks.values()}
        self.failures: list[RankFailed] = []
        self.done: set[int] = set()
        self.displays: list[tuple[int, dict[str, Any], dict[str, Any]]] = []

    def hear(self, topic: str, message: dict[str, Any]) -> None:
        """Takes one message from the tap; an engine's own topics are `engine.<number>.<what>`."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == RECORDS_MESSAGE:
            if content["run_id"] == self._run_id:
                self.take_batch(content)
            return
        number = topic.split(".")[1] if topic.startswith("engine.") else ""
        rank = self._ranks.get(int(number)) if number.isdigit() else None
        if rank is None:
            return
        if kind == "stream":
            self._history.apply(RankOutput(time=time.time(), rank=rank, stream=content["name"], text=content["text"]))
            if self._keeper is not None:
                self._keeper.output(rank, content["text"])
        elif kind == "display_data":
            self.displays.append((rank, content["data"], content.get("metadata", {})))

    def take_batch(self, batch: dict[str, Any]) -> None:
        """One published batch, from the tap or asked for again."""
        rank = batch["rank"]
        with self._lock:
            ready = self._sequencers[rank].take(batch)
        self._apply(ready)

    def _apply(self, batches: list[dict[str, Any]]) -> None:
        for batch in batches:
            if self._keeper is not None:
                self._keeper.batch(batch)
            for data in batch["records"]:
                record = decode(data)
                if record is None:
                    continue
                if isinstance(record, RankFailed):
                    self.failures.append(record)
                    self._wake()
                elif isinstance(record, RankDone):
                    self.done.add(record.rank)
                    self._wake()
                self._history.apply(record)

    def missing(self) -> dict[int, int]:
        """rank → first number of a batch that later ones have overtaken."""
        with self._lock:
            return {rank: start for rank, seq in self._sequencers.items() if (start := seq.missing_from) is not None}

    def give_up_waiting(self) -> None:
        """Shows what has come although something before it is lost."""
        with self._lock:
            late = [batch for sequencer in self._sequencers.values() for batch in sequencer.give_up()]
        self._apply(late)
