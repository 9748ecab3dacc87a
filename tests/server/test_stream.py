"""The websocket: who may listen, what comes, and that nothing is done while nobody looks."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.server import app, feed
from gpulayer_nb.server.feed import Feed
from gpulayer_nb.server.snapshot import Snapshot


def address(jp_http_port: int, jp_base_url: str) -> str:
    return f"ws://127.0.0.1:{jp_http_port}{jp_base_url}gpulayer/stream"


async def test_it_opens_with_the_whole_picture_and_then_says_what_is_new(jp_ws_fetch: Any, tmp_path: Path) -> None:
    socket = await jp_ws_fetch("gpulayer", "stream")
    first = json.loads(await asyncio.wait_for(socket.read_message(), 10))
    assert first == {"type": "whole", "protocol": 1, "clusters": [], "ranks": {}, "runs": []}
    pending = asyncio.ensure_future(socket.read_message())
    await asyncio.sleep(2.5)
    assert not pending.done(), "it spoke although nothing was new"
    RunFolder.create("20260131-142305-3f2a", tmp_path / "home").write_facts({"state": "finished"})
    news = json.loads(await asyncio.wait_for(pending, 10))
    assert [run["id"] for run in news["runs"]] == ["20260131-142305-3f2a"]
    socket.close()


async def test_it_stays_closed_without_a_token(http_server_client: Any, jp_http_port: int, jp_base_url: str) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await websocket_connect(address(jp_http_port, jp_base_url))
    assert refused.value.code == 403


async def test_it_stays_closed_to_pages_of_another_origin(
    http_server_client: Any, jp_http_port: int, jp_base_url: str, jp_auth_header: dict[str, str]
) -> None:
    url = address(jp_http_port, jp_base_url)
    for origin, opens in (("http://evil.example", False), (f"http://127.0.0.1:{jp_http_port}", True)):
        # a cookie, as a browser would send it: a token in the header would prove that it is no browser
        page = await http_server_client.fetch(f"{jp_base_url}api/status", headers=jp_auth_header)
        cookie = "; ".join(line.partition(";")[0] for line in page.headers.get_list("Set-Cookie"))
        request = HTTPRequest(url, headers={"Cookie": cookie, "Origin": origin})
        if opens:
            (await websocket_connect(request)).close()
        else:
            with pytest.raises(HTTPClientError) as refused:
                await websocket_connect(request)
            assert refused.value.code == 403


class Nobody(Authorizer):
    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return (action, resource) != ("read", "gpulayer")


async def test_it_stays_closed_to_who_may_not_read(jp_serverapp: Any, jp_ws_fetch: Any) -> None:
    jp_serverapp.web_app.settings["authorizer"] = Nobody(parent=jp_serverapp)
    with pytest.raises(HTTPClientError) as refused:
        await jp_ws_fetch("gpulayer", "stream")
    assert refused.value.code == 403


class Looks:
    """Stands for the service; counts."""

    def __init__(self) -> None:
        self.looks, self.away = 0, 0
        self.on_change = lambda: None

    def look(self) -> Snapshot:
        self.looks += 1
        return Snapshot(runs=[{"id": str(self.looks)}])

    def look_away(self) -> None:
        self.away += 1


async def _nothing() -> None:
    return


def paced(monkeypatch: pytest.MonkeyPatch) -> tuple[Looks, Feed]:
    for name, seconds in (("IDLE_SECONDS", 0.05), ("PACE_SECONDS", 0.02), ("AWAY_SECONDS", 0.2)):
        monkeypatch.setattr(feed, name, seconds)
    looks = Looks()
    return looks, Feed(looks, logging.getLogger("test"), _nothing)  # type: ignore[arg-type]  # a stand-in


async def test_nobody_looks_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, ours = paced(monkeypatch)
    await asyncio.sleep(0.2)
    assert looks.looks == 0
    subscriber = ours.subscribe()
    await asyncio.wait_for(subscriber.message(), 2)
    ours.unsubscribe(subscriber)
    await asyncio.sleep(0.6)
    before = looks.looks
    await asyncio.sleep(0.3)
    assert (looks.looks, looks.away) == (before, 1)
    again = ours.subscribe()
    assert json.loads(await asyncio.wait_for(again.message(), 2))["type"] == "whole"
    await ours.close()


async def test_a_slow_panel_gets_the_newest_picture_and_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, ours = paced(monkeypatch)
    slow = ours.subscribe()
    await asyncio.wait_for(slow.message(), 2)
    await asyncio.sleep(0.5)
    seen = looks.looks
    assert seen > 3
    message = json.loads(await asyncio.wait_for(slow.message(), 2))
    assert int(message["runs"][0]["id"]) >= seen
    await ours.close()


async def test_a_picture_that_cannot_be_made_is_logged_and_the_next_one_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks, ours = paced(monkeypatch)
    right = looks.look

    def fails() -> Snapshot:
        looks.look = right  # type: ignore[method-assign]  # once
        raise OSError("no more files")

    looks.look = fails  # type: ignore[method-assign]
    subscriber = ours.subscribe()
    assert await asyncio.wait_for(subscriber.message(), 2)
    assert "the picture could not be made" in caplog.text
    await ours.close()


async def test_the_end_is_bounded_and_never_raises(jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter's process would stay for ever with its kernels if this raised."""
    extension = next(iter(jp_serverapp.extension_manager.extension_apps["gpulayer_nb"]))
    monkeypatch.setattr(app, "END_SECONDS", 0.3)
    close = extension.service.close

    def raises() -> None:
        raise RuntimeError("disk gone")

    for hindrance in (raises, lambda: time.sleep(1.0)):
        monkeypatch.setattr(extension.service, "close", hindrance)
        began = time.monotonic()
        await extension.stop_extension()
        assert time.monotonic() - began < 1.0
    monkeypatch.setattr(extension.service, "close", close)
