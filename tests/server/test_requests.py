"""Who may ask what, and what a request may contain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.server.description import description
from gpulayer_nb.server.requests import BODY_BYTES, REQUESTS

RUN = "20260131-142305-3f2a"
ENGINE = ("clusters", "local", "engines", "local", "0")
# every path with a request that would be right if its cluster or run were there
EVERY = [
    ("GET", ("about",)), ("GET", ("openapi.json",)), ("GET", ("snapshot",)), ("POST", ("clusters",)),
    ("DELETE", ("clusters", "local")), ("POST", (*ENGINE, "restart")), ("GET", (*ENGINE, "log")), ("GET", ("runs", RUN)),
    ("POST", ("runs", RUN, "stop")), ("POST", ("runs", RUN, "report")), ("GET", ("runs", RUN, "log", "0")),
    ("GET", ("runs", RUN, "figure")), ("GET", ("stream",)), ("DELETE", ("clusters", "local", "workers", "local")),
]  # fmt: skip


def body(method: str) -> str | None:
    return "{}" if method == "POST" else None


async def status(fetch: Any, *path: str, method: str = "GET", **options: Any) -> int:
    """A request's status, whatever it is."""
    try:
        code: int = (await fetch("gpulayer", *path, method=method, **{"body": body(method), **options})).code
    except HTTPClientError as error:
        return error.code
    return code


def message(error: pytest.ExceptionInfo[HTTPClientError]) -> str:
    assert error.value.response is not None
    return str(json.loads(error.value.response.body)["message"])


async def test_every_path_refuses_who_has_no_token(jp_serverapp: Any, http_server_client: Any, jp_base_url: str) -> None:
    for method, path in EVERY:
        with pytest.raises(HTTPClientError) as refused:
            await http_server_client.fetch(
                jp_base_url + "gpulayer/" + "/".join(path), method=method, body=body(method), follow_redirects=False
            )
        assert refused.value.code == 403, path


async def test_a_cookie_alone_changes_nothing(
    jp_serverapp: Any, http_server_client: Any, jp_base_url: str, jp_auth_header: Any
) -> None:
    """A page of another site could send it; the token that scripts of ours read is missing."""
    page = await http_server_client.fetch(f"{jp_base_url}api/status", headers=jp_auth_header)
    cookie = "; ".join(line.partition(";")[0] for line in page.headers.get_list("Set-Cookie"))
    for method, path in EVERY:
        if method != "GET":
            with pytest.raises(HTTPClientError) as refused:
                await http_server_client.fetch(
                    jp_base_url + "gpulayer/" + "/".join(path), method=method, body=body(method), headers={"Cookie": cookie}
                )
            assert refused.value.code == 403, path


class Only(Authorizer):
    """Allows what `allowed` names on our resource, and all else of Jupyter's."""

    allowed: frozenset[str] = frozenset()
    asked: set[tuple[str, str]] = set()

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked.add((action, resource))
        return action in self.allowed


@pytest.mark.parametrize("allowed", [frozenset(), frozenset({"read"}), frozenset({"write"}), frozenset({"execute"})])
async def test_each_request_needs_the_right_that_its_description_names(
    jp_fetch: Any, jp_serverapp: Any, allowed: frozenset[str]
) -> None:
    """Twice each: Jupyter's decorator must not remember what another request needed."""
    authorizer = Only(parent=jp_serverapp)
    authorizer.allowed, authorizer.asked = allowed, set()
    jp_serverapp.web_app.settings["authorizer"] = authorizer
    templates = {len(path.split("/")): path for path in description()["paths"]}
    assert templates
    for _ in range(2):
        for method, path in EVERY:
            needed = _described(path)[method.lower()]["x-authorization"]["action"]
            code = await status(jp_fetch, *path, method=method)
            assert (code == 403) == (needed not in allowed), f"{method} {path} answered {code}, needs {needed}"
    assert {resource for _, resource in authorizer.asked} == {"gpulayer"}


def _described(path: tuple[str, ...]) -> dict[str, Any]:
    """The description of the path that this one is an example of."""
    examples = {
        "local": ("{name}", "{worker}"), "0": ("{slot}", "{rank}"), RUN: ("{run_id}",),
    }  # fmt: skip
    for template, methods in description()["paths"].items():
        words = template.removeprefix("/gpulayer/").split("/")
        if len(words) == len(path) and all(w == p or w in examples.get(p, ()) for w, p in zip(words, path, strict=True)):
            found: dict[str, Any] = methods
            return found
    raise AssertionError(f"not described: {path}")


def test_the_description_has_every_path_and_no_other() -> None:
    import re

    described = {re.sub(r"{[a-z_]+}", "0", path) for path in description()["paths"]} - {"/gpulayer/stream"}
    served = set()
    for pattern, handler in REQUESTS:
        path = re.sub(r"\(\?P<\w+>(?:[^()]|\([^()]*\))*\)", "0", pattern)
        served.add(path)
        methods = next(
            methods for template, methods in description()["paths"].items() if re.sub(r"{[a-z_]+}", "0", template) == path
        )
        assert set(methods) == {m for m in ("get", "post", "delete", "put", "patch") if m in vars(handler)}, path
    assert described == served


async def test_about_tells_version_and_protocol(jp_fetch: Any) -> None:
    import gpulayer_nb

    answer = json.loads((await jp_fetch("gpulayer", "about")).body)
    assert answer == {"version": gpulayer_nb.__version__, "protocol": 1, "max_ranks": 64}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("{}", "nodes is null"),
        ('{"nodes": 0, "devices": 2}', "nodes is 0; it is a whole number from 1 to 64"),
        ('{"nodes": true, "devices": 2}', "nodes is true"),
        ('{"nodes": 2, "devices": "2"}', 'devices is "2"'),
        ('{"nodes": 2, "devices": 1.5}', "devices is 1.5"),
        ('{"nodes": 64, "devices": 64}', "4096 ranks; this server starts at most 64"),
        ('{"nodes": 1, "devices": 1, "command": "rm"}', "nodes, devices in it"),
        ('{"nodes": "50 %", "devices": 1}', 'nodes is "50 %'),
        ("[1, 2]", "a JSON object"),
        ("{", "not JSON"),
        ("\xff", "not JSON"),
        ("[" * 2000, "not JSON"),
    ],
)
async def test_a_cluster_is_started_by_two_small_numbers_only(jp_fetch: Any, sent: str, words: str) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("gpulayer", "clusters", method="POST", body=sent.encode("latin-1"))
    assert refused.value.code == 400
    assert words in message(refused)


async def test_a_huge_body_is_refused(jp_fetch: Any) -> None:
    huge = json.dumps({"nodes": 1, "devices": 1, "pad": "x" * BODY_BYTES})
    assert await status(jp_fetch, "clusters", method="POST", body=huge) == 413
    assert await status(jp_fetch, "runs", RUN, "stop", method="POST", body="[" * (8 << 20)) == 413


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..%2fetc", ".ssh", "a/b", "a%00b", "-x", "x" * 200, "nope"])
async def test_no_cluster_name_leads_out_of_the_known_ones(jp_fetch: Any, name: str) -> None:
    assert await status(jp_fetch, "clusters", name, method="DELETE") in (404, 405)
    assert await status(jp_fetch, "clusters", name, "engines", "local", "0", "log") == 404


@pytest.mark.parametrize("run_id", ["..", "%2e%2e%2fsecret", "20260131-142305-3f2a%2f..%2fsecret", "20260131-142305-ZZZZ", RUN])
async def test_no_run_id_leads_out_of_the_run_folders(jp_fetch: Any, tmp_path: Path, run_id: str) -> None:
    secret = tmp_path / "home" / "secret"
    secret.mkdir()
    (secret / "run.json").write_text("{}")
    (secret / "logs").mkdir()
    (secret / "logs" / "rank-0.log").write_text("secret")
    for path in ((), ("figure",), ("log", "0")):
        assert await status(jp_fetch, "runs", run_id, *path) == 404
    for verb in ("stop", "report"):
        assert await status(jp_fetch, "runs", run_id, verb, method="POST") == 404
    assert not (secret / "stop").exists()


async def test_a_rank_is_a_number_and_no_path(jp_fetch: Any, tmp_path: Path) -> None:
    folder = RunFolder.create(RUN, tmp_path / "home")
    folder.write_facts({"state": "finished"})
    assert await status(jp_fetch, "runs", RUN, "log", "1") == 404
    assert await status(jp_fetch, "runs", RUN, "log", "..%2frun.json") == 404


async def test_a_finished_run_cannot_be_stopped_and_its_log_can_be_read(jp_fetch: Any, tmp_path: Path) -> None:
    folder = RunFolder.create(RUN, tmp_path / "home")
    folder.write_facts(
        {"run_id": RUN, "state": "finished", "mode": "train", "num_nodes": 1, "devices": 2, "metrics": {"loss": 0.5}}
    )
    folder.log(1).write_text("".join(f"line {n}\n" for n in range(300)))
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("gpulayer", "runs", RUN, "stop", method="POST", body="{}")
    assert refused.value.code == 409
    assert message(refused) == f"Run {RUN} is over: finished."
    read = json.loads((await jp_fetch("gpulayer", "runs", RUN, "log", "1", params={"lines": "2"})).body)
    assert read["lines"] == ["line 298", "line 299"]
    assert await status(jp_fetch, "runs", RUN, "log", "1", params={"lines": "-1"}) == 400
    about = json.loads((await jp_fetch("gpulayer", "runs", RUN)).body)
    assert about["state"] == "finished"
    listed = json.loads((await jp_fetch("gpulayer", "snapshot")).body)["runs"]
    assert [(row["id"], row["state"], row["metrics"]) for row in listed] == [(RUN, "finished", {"loss": 0.5})]
