"""Everything that goes with one run while it is on: who hears it, who drives it.

Runs in the process that drives the run: the notebook's kernel, or a detached run's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from gpulayer_nb.client.cluster import EngineWatch
from gpulayer_nb.client.driver import Driver, DriverOutcome
from gpulayer_nb.client.listener import RunListener
from gpulayer_nb.client.rank_group import ReadyGroup
from gpulayer_nb.client.run_keeper import RunKeeper
from gpulayer_nb.link.connection import Connection
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import Notice
from gpulayer_nb.records.run_spec import RunSpec


class Conduct:
    """`listener.hear` takes the tap's messages; `driver.request_stop` may be called from any thread."""

    def __init__(
        self,
        connection: Connection,
        watch: EngineWatch,
        group: ReadyGroup,
        run_id: str,
        history: RunHistory,
        *,
        can_ask: bool,
        refresh: Callable[[], None],
        timeout_seconds: float | None,
        presses: Callable[[], int] = lambda: 0,
        keeper: RunKeeper | None = None,
    ) -> None:
        wake = threading.Event()
        numbers = connection.engines()
        ranks = {numbers[one.engine]: one.place.rank for one in group.assignments if one.engine in numbers}
        self.listener = RunListener(run_id, ranks, history, wake.set, keeper)
        self.driver = Driver(
            connection,
            group,
            self.listener,
            wake,
            watch=watch,
            can_ask=can_ask,
            refresh=refresh,
            timeout_seconds=timeout_seconds,
            stopping=history.mark_stopping,
            presses=presses,
            stalled_seconds=history.stalled_seconds,
            warn=lambda text: history.apply(Notice(time=time.time(), text=text, level="warning")),
        )

    def run(self, specs: Sequence[RunSpec]) -> DriverOutcome:
        return self.driver.run(specs)
