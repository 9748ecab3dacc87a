"""A real kernel that tests drive as a front end would; every cell has a time limit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class CellResult:
    """What one cell left: `text` is all it printed and displayed as plain text, without colours."""

    text: str = ""
    error: str | None = None
    traceback: str = ""
    seconds: float = 0.0
    outputs: list[dict[str, Any]] = field(default_factory=list)


class Notebook:
    """One kernel. Every cell has a time limit; a cell over it is a failed test."""

    def __init__(self, folder: str, manager: KernelManager | None = None, environment: dict[str, str] | None = None) -> None:
        self.manager = manager or KernelManager(kernel_name="python3")
        # under pytest's variable ipykernel leaves text of C code and subprocesses alone
        inherited = os.environ if environment is None else environment
        environment = {name: value for name, value in inherited.items() if name != "PYTEST_CURRENT_TEST"}
        self.manager.start_kernel(cwd=folder, env=environment)
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, source: str) -> str:
        return str(self.client.execute(source))

    def read(self, msg_id: str, limit_seconds: float = 60.0) -> CellResult:
        result, started = CellResult(), time.monotonic()
        clear = False
        while True:
            left = limit_seconds - (time.monotonic() - started)
            if left <= 0:
                pytest.fail(f"no answer in {limit_seconds} s; so far: {result.text}")
            try:
                message = self.client.get_iopub_msg(timeout=left)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "clear_output":
                clear = True
                continue
            if kind in ("stream", "display_data", "execute_result", "error"):
                if clear:
                    result.outputs.clear()
                    clear = False
                result.outputs.append({"kind": kind, **content})
            elif kind == "update_display_data":
                for output in result.outputs:
                    if output.get("transient", {}).get("display_id") == content["transient"]["display_id"]:
                        output["data"] = content["data"]
        result.seconds = time.monotonic() - started
        for output in result.outputs:
            if output["kind"] == "stream":
                result.text += output["text"]
            elif output["kind"] == "error":
                result.error = f"{output['ename']}: {output['evalue']}"
                result.traceback = _ANSI.sub("", "\n".join(output["traceback"]))
            else:
                result.text += str(output["data"].get("text/plain", "")) + "\n"
        result.text = _ANSI.sub("", result.text)
        return result

    def run(self, source: str, limit_seconds: float = 60.0) -> CellResult:
        return self.read(self.send(source), limit_seconds)

    def ok(self, source: str, limit_seconds: float = 60.0) -> str:
        result = self.run(source, limit_seconds)
        assert result.error is None, f"{result.error}\n{result.traceback}"
        return result.text

    def complete(self, source: str) -> dict[str, Any]:
        """What Tab at the end of `source` finds. A machine's first Tab of all lets jedi read much source: seconds."""
        content: dict[str, Any] = self.client.complete(source, len(source), reply=True, timeout=60)["content"]
        return content

    def inspect(self, source: str, position: int) -> dict[str, Any]:
        """What Shift+Tab at `position` of `source` shows."""
        content: dict[str, Any] = self.client.inspect(source, position, reply=True, timeout=60)["content"]
        return content

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


def wait_for_file(path: Path, limit_seconds: float = 60.0) -> None:
    """Until a cell or a script has made it: how long ranks take to start is the machine's affair."""
    deadline = time.monotonic() + limit_seconds
    while not path.exists():
        if time.monotonic() > deadline:
            pytest.fail(f"{path.name} did not appear in {limit_seconds} s")
        time.sleep(0.05)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A notebook that the tests of a module share, with the extension loaded; starting ranks takes seconds."""
    made = Notebook(str(tmp_path_factory.mktemp("notebook")))
    try:
        made.ok("%load_ext gpulayer_nb\nimport gpulayer_nb as glt\nimport torch; from torch import nn\n"
                "from torch.utils.data import DataLoader, Dataset, TensorDataset")  # fmt: skip
        yield made
    finally:
        made.end()


@pytest.fixture
def fresh_notebook(tmp_path) -> Iterator[Notebook]:
    """A notebook of the test's own."""
    made = Notebook(str(tmp_path))
    try:
        made.ok("%load_ext gpulayer_nb\nimport gpulayer_nb as glt")
        yield made
    finally:
        if made.manager.has_kernel:
            made.end()
