"""Sends the picture to whoever looks, as it changes, and is silent when nobody does.

Runs on the Jupyter server's event loop; pictures are made on worker threads. Owns the pace: at most five messages a second, one
a second with many ranks, and none that says nothing new.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from logging import Logger

from gpulayer_nb.server.service import Service
from gpulayer_nb.server.snapshot import DELTAS_FROM, Changes, Snapshot

IDLE_SECONDS = 1.0  # between pictures when nothing is heard
PACE_SECONDS = 0.25
PACE_OF_MANY_SECONDS = 1.0
AWAY_SECONDS = 5.0  # a reloaded page comes back before everything was let go


class Subscriber:
    """One open panel. A slow one gets the newest picture, not a backlog."""

    def __init__(self) -> None:
        self._changes = Changes()
        self._newest: Snapshot | None = None
        self._news = asyncio.Event()

    def offer(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        self._news.set()

    async def message(self) -> str:
        """The next one that says something new; waits for it."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._newest is not None and (message := self._changes.message(self._newest)) is not None:
                return json.dumps(message, separators=(",", ":"))


class Feed:
    """`prepare` is awaited before each picture."""

    def __init__(self, service: Service, log: Logger, prepare: Callable[[], Awaitable[None]]) -> None:
        self._service, self._log, self._prepare = service, log, prepare
        self._subscribers: set[Subscriber] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def subscribe(self) -> Subscriber:
        subscriber = Subscriber()
        self._subscribers.add(subscriber)
        self._service.on_change = self._wake(asyncio.get_running_loop())
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.create_task(self._tick())
        self._changed.set()
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._changed.set)

        return wake

    async def _tick(self) -> None:
        alone = 0.0
        while alone < AWAY_SECONDS:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), IDLE_SECONDS)
            self._changed.clear()
            if not self._subscribers:
                await asyncio.sleep(PACE_SECONDS)
                alone += PACE_SECONDS
                continue
            alone = 0.0
            snapshot = await self._look()
            if snapshot is not None:
                for subscriber in self._subscribers:
                    subscriber.offer(snapshot)
            many = snapshot is not None and len(snapshot.ranks) >= DELTAS_FROM
            await asyncio.sleep(PACE_OF_MANY_SECONDS if many else PACE_SECONDS)
        await asyncio.to_thread(self._service.look_away)

    async def _look(self) -> Snapshot | None:
        try:
            await self._prepare()
            return await asyncio.to_thread(self._service.look)
        except Exception:  # noqa: BLE001  the panel goes on with what it has; the server's log tells why
            self._log.exception("gpulayer_nb: the picture could not be made")
            return None

    async def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
