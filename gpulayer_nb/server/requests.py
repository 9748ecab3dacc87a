"""HTTP for the service: one small class per path, each maps a request to one call.

Runs in the Jupyter server. Owns paths, what a request may contain, and which error is which status. Every method is
authenticated and names its own action and resource: a bare `@authorized` remembers those of its first call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

import gpulayer_nb
from gpulayer_nb.errors import GpuLayerError, UsageError
from gpulayer_nb.server.description import description
from gpulayer_nb.server.feed import Feed
from gpulayer_nb.server.refusals import NotNowError, NotThereError
from gpulayer_nb.server.service import Service
from gpulayer_nb.server.snapshot import PROTOCOL

RESOURCE = "gpulayer"
BODY_BYTES = 4096  # the largest that means anything is 40
MOST_LINES = 2000
T = TypeVar("T")


class PanelHandler(APIHandler):
    """What all of them share. Handlers never share a method."""

    auth_resource = RESOURCE

    @property
    def service(self) -> Service:
        service: Service = self.settings["gpulayer_service"]
        return service

    @property
    def feed(self) -> Feed:
        feed: Feed = self.settings["gpulayer_feed"]
        return feed

    async def prepare(self) -> None:  # type: ignore[override]  # tornado allows a coroutine here
        await super().prepare()
        if len(self.request.body) > BODY_BYTES:
            raise web.HTTPError(413, f"A request's body has at most {BODY_BYTES} bytes, not {len(self.request.body)}.")

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Calls the service on a worker thread; what it refuses becomes a status and one readable sentence."""
        try:
            return await asyncio.to_thread(function, *arguments)
        except GpuLayerError as error:
            refuse(error)

    def answer(self, content: dict[str, Any], status: int = 200) -> None:
        self.set_status(status)
        self.finish(json.dumps(content))

    def whole_number(self, body: dict[str, Any], name: str, most: int) -> int:
        value = body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise web.HTTPError(400, f"{name} is {_shown(value)}; it is a whole number from 1 to {most}.")
        return value

    def body(self, *allowed: str) -> dict[str, Any]:
        """The request's JSON object; nothing but the allowed names."""
        try:
            body = json.loads(self.request.body or b"{}")
        except (ValueError, RecursionError):
            raise web.HTTPError(400, "The request's body is not JSON.") from None
        if not isinstance(body, dict) or not set(body) <= set(allowed):
            raise web.HTTPError(400, f"The request's body is a JSON object with {', '.join(allowed) or 'nothing'} in it.")
        return body


def index(text: str) -> int:
    """A slot or a rank, as a path names it."""
    if not text.isascii() or not text.isdigit() or len(text) > 5:
        raise web.HTTPError(404, f"{_shown(text)} is no number of an engine or a rank.")
    return int(text)


def _shown(value: Any) -> str:
    return json.dumps(value)[:80]


def refuse(error: GpuLayerError) -> NoReturn:
    status = 404 if isinstance(error, NotThereError) else 409 if isinstance(error, NotNowError) else 400
    if not isinstance(error, UsageError):
        status = 500
    raise web.HTTPError(status, str(error), reason="Refused") from error


class About(PanelHandler):
    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self) -> None:
        self.answer({"version": gpulayer_nb.__version__, "protocol": PROTOCOL, "max_ranks": self.service.max_ranks})


class OpenApi(PanelHandler):
    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self) -> None:
        self.answer(description())


class SnapshotNow(PanelHandler):
    """For a panel that cannot have a websocket."""

    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self) -> None:
        subscriber = self.feed.subscribe()  # keeps the watches for the next poll
        self.feed.unsubscribe(subscriber)
        snapshot = await self.call(self.service.look)
        self.answer(snapshot.whole())


class Clusters(PanelHandler):
    @web.authenticated
    @authorized("write", RESOURCE)
    async def post(self) -> None:
        body = self.body("nodes", "devices")
        most = self.service.max_ranks
        nodes, devices = self.whole_number(body, "nodes", most), self.whole_number(body, "devices", most)
        if nodes * devices > most:
            raise web.HTTPError(
                400, f"{nodes} nodes × {devices} devices are {nodes * devices} ranks; this server starts at most {most}."
            )
        self.answer({"name": await self.call(self.service.start_cluster, nodes, devices)}, 201)


class Cluster(PanelHandler):
    @web.authenticated
    @authorized("write", RESOURCE)
    async def delete(self, name: str) -> None:
        await self.call(self.service.stop_cluster, name)
        self.set_status(204)
        self.finish()


class Worker(PanelHandler):
    @web.authenticated
    @authorized("execute", RESOURCE)
    async def delete(self, name: str, worker: str) -> None:
        await self.call(self.service.end_worker, name, worker)
        self.set_status(204)
        self.finish()


class EngineRestart(PanelHandler):
    @web.authenticated
    @authorized("execute", RESOURCE)
    async def post(self, name: str, worker: str, slot: str) -> None:
        self.body()
        await self.call(self.service.restart_engine, name, worker, index(slot))
        self.answer({})


class EngineLog(PanelHandler):
    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self, name: str, worker: str, slot: str) -> None:
        self.answer({"lines": await self.call(self.service.engine_log, name, worker, index(slot))})


class Run(PanelHandler):
    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self, run_id: str) -> None:
        self.answer(await self.call(self.service.run, run_id))


class RunStop(PanelHandler):
    @web.authenticated
    @authorized("execute", RESOURCE)
    async def post(self, run_id: str) -> None:
        self.body()
        self.answer({"asked": await self.call(self.service.stop_run, run_id)})


class RunReport(PanelHandler):
    @web.authenticated
    @authorized("execute", RESOURCE)
    async def post(self, run_id: str) -> None:
        self.body()
        self.answer({"text": await self.call(self.service.report, run_id)})


class RunLog(PanelHandler):
    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self, run_id: str, rank: str) -> None:
        asked = self.get_query_argument("lines", "200")
        if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked[:6]) <= MOST_LINES:
            raise web.HTTPError(400, f"lines is a whole number from 1 to {MOST_LINES}.")
        self.answer({"lines": await self.call(self.service.run_log, run_id, index(rank), int(asked))})


class RunFigure(PanelHandler):
    @web.authenticated
    @authorized("read", RESOURCE)
    async def get(self, run_id: str) -> None:
        picture = await self.call(self.service.figure, run_id)
        self.set_header("Content-Type", "image/png")
        self.finish(picture)


# Any name gets here and is looked up among those that exist: what is not there is refused in our own words, as JSON.
_NAME = r"(?P<name>[^/]+)"
_ENGINE = rf"/gpulayer/clusters/{_NAME}/engines/(?P<worker>[^/]+)/(?P<slot>[^/]+)"
_RUN = r"/gpulayer/runs/(?P<run_id>[^/]+)"

REQUESTS: list[tuple[str, type[PanelHandler]]] = [
    (r"/gpulayer/about", About),
    (r"/gpulayer/openapi.json", OpenApi),
    (r"/gpulayer/snapshot", SnapshotNow),
    (r"/gpulayer/clusters", Clusters),
    (rf"/gpulayer/clusters/{_NAME}", Cluster),
    (rf"/gpulayer/clusters/{_NAME}/workers/(?P<worker>[^/]+)", Worker),
    (rf"{_ENGINE}/restart", EngineRestart),
    (rf"{_ENGINE}/log", EngineLog),
    (_RUN, Run),
    (rf"{_RUN}/stop", RunStop),
    (rf"{_RUN}/report", RunReport),
    (rf"{_RUN}/log/(?P<rank>[^/]+)", RunLog),
    (rf"{_RUN}/figure", RunFigure),
]
