"""The Jupyter server extension: settings, routes, a clean and bounded end.

Runs in the Jupyter server. Owns nothing but the wiring.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Int

from gpulayer_nb.server.feed import Feed
from gpulayer_nb.server.notebooks import Notebooks
from gpulayer_nb.server.requests import REQUESTS
from gpulayer_nb.server.service import Service
from gpulayer_nb.server.stream import Stream

END_SECONDS = 12.0


class GpuLayerExtension(ExtensionApp):
    name = "gpulayer_nb"
    description = "The server part of gpulayer_nb's panel."
    load_other_extensions = True
    max_ranks = Int(64, min=1, help="Most ranks of a cluster that is started from the panel.").tag(config=True)

    service: Service
    feed: Feed

    def initialize_settings(self) -> None:
        notebooks = Notebooks(self.serverapp)
        self.service = Service(max_ranks=self.max_ranks, notebook_of=notebooks.of_kernel)
        self.feed = Feed(self.service, self.log, notebooks.refresh)
        self.settings.update(gpulayer_service=self.service, gpulayer_feed=self.feed)

    def initialize_handlers(self) -> None:
        routes: list[tuple[str, Any]] = [*REQUESTS, (r"/gpulayer/stream", Stream)]
        self.handlers.extend(routes)

    def current_activity(self) -> None:
        """Nothing here keeps a server from being culled."""

    async def stop_extension(self) -> None:
        """Bounded in time, and never raises: an exception here would keep the server's process alive for ever."""
        try:
            await asyncio.wait_for(self._close(), END_SECONDS)
        except Exception as error:  # noqa: BLE001  as the docstring says
            self.log.warning("gpulayer_nb: %s while ending", error or type(error).__name__)

    async def _close(self) -> None:
        await self.feed.close()
        await asyncio.to_thread(self.service.close)
