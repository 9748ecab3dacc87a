"""Every request that the shipped OpenAPI file allows, and many that it forbids, against a real server."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest

from gpulayer_nb.link.ports import HeldPort
from gpulayer_nb.server.description import description

BASE = "/user/ann/"
EXAMPLES = 30  # requests an operation
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@dataclass(frozen=True)
class Server:
    address: str
    token: str


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    token, held = secrets.token_hex(16), HeldPort("127.0.0.1")
    log = tmp_path / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", "--allow-root", f"--port={held.number}", "--port-retries=0",
             f"--IdentityProvider.token={token}", f"--ServerApp.base_url={BASE}", f"--ServerApp.root_dir={tmp_path}",
             "--ServerApp.open_browser=False", "--ServerApp.allow_unauthenticated_access=False"],
            stdout=output, stderr=subprocess.STDOUT, env={**os.environ},
        )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{held.number}{BASE}".rstrip("/")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api?token={token}", timeout=2):
                break
            time.sleep(0.2)
        yield Server(address, token)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        finally:
            process.kill()
            held.close()


def schemathesis(server: Server, folder: Path, *options: str) -> str:
    """Its report; fails if it found anything."""
    described = files("gpulayer_nb.server") / "openapi.json"
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", str(described), f"--url={server.address}",
         f"--header=Authorization: token {server.token}", f"--max-examples={EXAMPLES}", f"--checks={CHECKS}", "--phases=fuzzing",
         "--request-timeout=20", "--seed=1", *options],
        capture_output=True, text=True, timeout=240, check=False, cwd=folder,  # it leaves a cache
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_no_request_breaks_the_server_and_every_answer_is_as_described(server: Server, tmp_path: Path) -> None:
    left_out = ("/gpulayer/stream", "/gpulayer/clusters")  # no plain answer; would start clusters
    report = schemathesis(server, tmp_path, *(f"--exclude-path={path}" for path in left_out))
    operations = sum(len(methods) for path, methods in description()["paths"].items() if path not in left_out)
    assert f"Tested: {operations}" in report, report[-3000:]


@pytest.mark.slow
def test_no_malformed_wish_starts_a_cluster(server: Server, tmp_path: Path) -> None:
    schemathesis(server, tmp_path, "--include-path=/gpulayer/clusters", "--mode=negative")
