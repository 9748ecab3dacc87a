"""What nbval lacks to see a cell's outputs as a page shows them.

Runs in pytest when it collects notebooks. nbval 0.11 knows neither `clear_output` nor `update_display_data`, so a cell whose live
output is replaced when it ends would be compared with that live output too. Delete this file when nbval handles both.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbFile

OUTPUTS = ("stream", "display_data", "execute_result", "error")
_receive = IPyNbFile.get_kernel_message
_await_idle = RunningKernel.await_idle


def as_shown(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of one cell with what was cleared left out and what was updated in its final form."""
    shown: list[dict[str, Any]] = []
    clear = False
    for message in messages:
        kind, content = message["msg_type"], message["content"]
        if kind == "clear_output":
            clear = True
            if not content.get("wait"):
                shown, clear = [kept for kept in shown if kept["msg_type"] not in OUTPUTS], False
        elif kind == "update_display_data":
            for kept in shown:
                if kept["msg_type"] == "display_data" and _display_id(kept) == _display_id(message):
                    kept["content"] = {**kept["content"], "data": content["data"], "metadata": content["metadata"]}
        else:
            if clear and kind in OUTPUTS:
                shown, clear = [kept for kept in shown if kept["msg_type"] not in OUTPUTS], False
            shown.append(message)
    return shown


def _display_id(message: dict[str, Any]) -> str | None:
    found: str | None = message["content"].get("transient", {}).get("display_id")
    return found


def _ends_a_cell(message: dict[str, Any]) -> bool:
    return (
        message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
        and message["parent_header"].get("msg_type") == "execute_request"
    )


def get_kernel_message(self: Any, timeout: float | None = None, stream: str = "iopub") -> dict[str, Any]:
    """nbval asks for one message at a time; it gets those of a whole cell, put in order, one by one."""
    if stream != "iopub":
        received: dict[str, Any] = _receive(self, timeout=timeout, stream=stream)
        return received
    waiting: deque[dict[str, Any]] = self.__dict__.setdefault("_gpulayer_messages", deque())
    if not waiting:
        messages = [_receive(self, timeout=timeout)]
        while not _ends_a_cell(messages[-1]):
            messages.append(_receive(self, timeout=timeout))
        own = self.kernel.__dict__["_gpulayer_idle"] = messages[-1]["parent_header"]["msg_id"]
        waiting.extend(as_shown([message for message in messages if message["parent_header"].get("msg_id") == own]))
    return waiting.popleft()


def await_idle(self: Any, parent_id: str, timeout: float) -> None:
    """After an error nbval waits for the cell's end; it has been received already."""
    if self.__dict__.get("_gpulayer_idle") != parent_id:
        _await_idle(self, parent_id, timeout)


IPyNbFile.get_kernel_message = get_kernel_message
RunningKernel.await_idle = await_idle
