"""The websocket: pictures from the server to one panel. Actions go by HTTP, where XSRF is checked.

Runs on the Jupyter server's event loop. Owns who may listen. Without a cookie or token, from a foreign origin, or against the
authorizer's word it does not open.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from gpulayer_nb.server.feed import Feed
from gpulayer_nb.server.requests import RESOURCE


class Stream(WebSocketMixin, WebSocketHandler, JupyterHandler):
    auth_resource = RESOURCE
    _pump: asyncio.Task[None] | None = None

    def set_default_headers(self) -> None:
        """A websocket has no page whose headers would matter."""

    def get_compression_options(self) -> dict[str, Any]:
        return {}  # on, with the defaults

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        allowed = await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", RESOURCE))
        if not allowed:
            raise web.HTTPError(403)
        result = super().get(*args, **kwargs)
        if result is not None:
            await result

    def open(self, *args: Any, **kwargs: Any) -> None:
        super().open(*args, **kwargs)  # starts the keep-alive pings
        self._pump = asyncio.create_task(self._send())

    async def _send(self) -> None:
        feed: Feed = self.settings["gpulayer_feed"]
        subscriber = feed.subscribe()
        try:
            while True:
                await self.write_message(await subscriber.message())
        except (WebSocketClosedError, StreamClosedError):
            return
        finally:
            feed.unsubscribe(subscriber)

    def on_message(self, message: str | bytes) -> None:
        """The panel has nothing to say here."""

    def on_close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        super().on_close()
