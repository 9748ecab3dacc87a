"""A real JupyterLab with a token, in folders of its own, and a real browser that looks at it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, sync_playwright

from gpulayer_nb.link.ports import HeldPort

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = [
    "--no-sandbox",  # CI runs as root
    "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",  # asks nothing of the internet
]  # fmt: skip
START_SECONDS = 60.0
END_SECONDS = 15.0


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab; `folder` holds its notebooks."""

    address: str
    token: str
    folder: Path

    def url(self, notebook: str) -> str:
        return f"{self.address}/lab/tree/{notebook}?token={self.token}&reset"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """JupyterLab on a free port."""
    with started_lab(tmp_path) as lab:
        yield lab


@pytest.fixture
def start_lab(tmp_path: Path) -> Callable[[], contextlib.AbstractContextManager[Lab]]:
    """Starts JupyterLab, once or again, in the same folders: for tests that close it."""
    return lambda: started_lab(tmp_path)


@pytest.fixture
def lab_under_a_path(tmp_path: Path) -> Iterator[Lab]:
    """JupyterLab as JupyterHub serves it: under a base URL with a blank in it."""
    with started_lab(tmp_path, "/user/a%20b/x/") as lab:
        yield lab


@contextlib.contextmanager
def started_lab(tmp_path: Path, base_url: str = "/") -> Iterator[Lab]:
    """Its whole process tree is gone afterwards, kernels and ranks included."""
    folder = tmp_path / "notebooks"
    folder.mkdir(exist_ok=True)
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(notebook, folder)
    settings = tmp_path / "app" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "overrides.json").write_text(json.dumps({"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)  # a test may start the server again
    environment = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(runtime),  # the panel shows every cluster of this user: here only the test's own
        "GPULAYER_HOME": str(tmp_path / "home"),
        **{f"JUPYTER_{kind}_DIR": str(tmp_path / f"jupyter-{kind.lower()}") for kind in ("CONFIG", "DATA", "RUNTIME")},
    }
    token, held = secrets.token_hex(16), HeldPort("127.0.0.1")
    log = tmp_path / "lab.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={held.number}", "--port-retries=0",
             f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", f"--LabApp.app_settings_dir={settings}",
             f"--LabApp.user_settings_dir={tmp_path / 'user'}", f"--LabApp.workspaces_dir={tmp_path / 'workspaces'}",
             f"--ServerApp.base_url={base_url}",
             "--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"],
            stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{held.number}{base_url}".rstrip("/")
        _wait_until_it_answers(f"{address}/api", server, log)
        yield Lab(address, token, folder)
    finally:
        _end(server)
        held.close()


@pytest.fixture
def page() -> Iterator[Page]:
    """A browser's page, wide enough for a notebook with a run view."""
    browser_path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    assert browser_path, f"none of {', '.join(BROWSERS)} is installed; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=BROWSER_FLAGS)
        try:
            yield browser.new_page(viewport={"width": 1280, "height": 1000})
        finally:
            browser.close()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: $GPULAYER_SCREENSHOTS, if somebody wants to look at them, else the test's own folder."""
    folder = Path(os.environ.get("GPULAYER_SCREENSHOTS") or tmp_path / "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _wait_until_it_answers(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, f"JupyterLab ended with {server.returncode}:\n{log.read_text()}"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not answer within {START_SECONDS:.0f} s:\n{log.read_text()}")


def _end(server: subprocess.Popen[bytes]) -> None:
    tree = [*psutil.Process(server.pid).children(recursive=True)] if server.poll() is None else []
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(END_SECONDS)
    _, alive = psutil.wait_procs(tree, timeout=END_SECONDS)
    for process in alive:
        process.kill()
    assert not alive, f"JupyterLab's shutdown left these processes (killed now): {alive}"
