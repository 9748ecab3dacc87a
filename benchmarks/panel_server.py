"""What the panel's server part costs while somebody looks at 4 to 64 idle ranks of this machine: linear, or worse?

The server's own feed and service run in this process with one subscriber, as in Jupyter; its processor time is counted, which
depends little on what else the machine does. There is no peer: the ratio is to 4 ranks, and 64 may cost 16 times as much.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from goal import Goal
from interleave import Benchmark, Measure
from kernel import fresh_kernel
from scale import SIZES, round_trip

from gpulayer_nb.server.feed import Feed, Subscriber
from gpulayer_nb.server.service import Service

LOOK_SECONDS = 8.0
UP_SECONDS = 20.0


def percent_of_a_core(runtime: Path, ranks: int) -> float:
    """Of this process, over some seconds of looking at the clusters of a runtime folder, once all their ranks are seen."""
    return asyncio.run(_look(Service(root=runtime / "gpulayer", runs_root=runtime / "runs", profiles=runtime), ranks))


async def _look(service: Service, ranks: int) -> float:
    async def nothing() -> None: ...

    feed = Feed(service, logging.getLogger("panel"), nothing)
    subscriber = feed.subscribe()
    try:
        await asyncio.wait_for(_all_ranks(subscriber, ranks), UP_SECONDS)
        began = time.process_time()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_read(subscriber), LOOK_SECONDS)
        return 100 * (time.process_time() - began) / LOOK_SECONDS
    finally:
        feed.unsubscribe(subscriber)
        await asyncio.to_thread(service.look_away)


async def _all_ranks(subscriber: Subscriber, ranks: int) -> None:
    seen: set[str] = set()
    while len(seen) < ranks:
        seen.update(json.loads(await subscriber.message()).get("ranks", ()))


async def _read(subscriber: Subscriber) -> None:
    while True:
        await subscriber.message()


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    with ExitStack() as stack:
        measures: dict[str, Measure] = {}
        for ranks in SIZES:
            runtime = stack.enter_context(tempfile.TemporaryDirectory())
            kernel = stack.enter_context(fresh_kernel({"XDG_RUNTIME_DIR": runtime}))
            kernel.run("%load_ext gpulayer_nb")
            round_trip(kernel, ranks)  # starts them
            measures[f"{ranks} ranks"] = partial(percent_of_a_core, Path(runtime), ranks)
        yield measures


BENCHMARK = Benchmark(
    name="panel_server", unit="percent of a core", peer=f"{SIZES[0]} ranks", contenders=contenders,
    goals=(Goal(contender=f"{SIZES[-1]} ranks", limit=SIZES[-1] / SIZES[0], alarm=2 * SIZES[-1] / SIZES[0]),),
)  # fmt: skip
