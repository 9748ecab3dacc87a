"""Lets a page be heard while a cell blocks the kernel.

Runs in the kernel's main thread, inside the blocking cell. Owns the look into ipykernel's queue: what widgets and a page that was
loaded again ask is answered at once, everything else waits for its turn. Must not know what is shown.
"""

from __future__ import annotations

import inspect
import signal
import threading
from typing import Any

_AT_ONCE = ("comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request")
_WITH_REPLY = ("comm_info_request", "kernel_info_request")
MOST = 50  # messages in one turn


class CommPump:
    """Works with the queue that ipykernel has had since version 7; with any other kernel `turn` does nothing.

    ipykernel routes a widget's messages to the shell that last wrote to it, which is the blocked one; see its comm.py.
    """

    def __init__(self) -> None:
        self._kernel = _kernel()
        self._held: list[Any] = []  # messages, in order, that are not to be answered now
        self._socket: Any = None
        self._events: Any = None
        if self._kernel is not None and threading.current_thread() is threading.main_thread():
            manager = getattr(getattr(self._kernel, "shell_channel_thread", None), "manager", None)
            if manager is not None and hasattr(manager, "get_shell_channel_to_subshell_pair"):
                self._socket = manager.get_shell_channel_to_subshell_pair(None).to_socket
                self._replies = manager.get_subshell_to_shell_channel_socket(None)
                self._events = getattr(getattr(self._kernel, "shell", None), "events", None)
                if self._events is not None:
                    self._events.register("post_run_cell", self._cell_is_over)

    def turn(self) -> None:
        """Answer what is there now."""
        if self._socket is None or threading.current_thread() is not threading.main_thread() or not self._socket.poll(0):
            return
        pressed: list[Any] = []  # an interrupt in here would lose a message: it is raised when all are in safe hands
        before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
        try:
            for _ in range(MOST):
                if not self._socket.poll(0):
                    break
                self._take(self._socket.recv_multipart(copy=False))
        finally:
            signal.signal(signal.SIGINT, before)
        if pressed:
            raise KeyboardInterrupt

    def say_busy(self) -> None:
        """Pages take the end of whatever was answered meanwhile, also on the control channel, for the end of the cell."""
        if self._socket is not None:
            self._kernel._publish_status("busy", "shell")

    def close(self) -> None:
        """Give back what was held, in order, to be run when the cell is over. May be called twice."""
        self._socket = None
        events, self._events = self._events, None
        if events is not None:
            events.unregister("post_run_cell", self._cell_is_over)
        held, self._held = self._held, []
        for message in held:
            self._kernel.io_loop.add_callback(self._kernel.shell_main, None, message)

    def _cell_is_over(self, _: object = None) -> None:
        """Nothing stays held, whatever became of the view."""
        self.close()

    def _take(self, frames: Any) -> None:
        kernel = self._kernel
        idents, rest = kernel.session.feed_identities(frames, copy=False)
        kind = kernel.session.unpack(rest[1].bytes)["msg_type"] if len(rest) > 1 else ""
        if kind not in _AT_ONCE:
            self._held.append(frames)
            return
        message = kernel.session.deserialize(rest, content=True, copy=False)
        result = kernel.shell_handlers[kind](self._replies, idents, message)
        if inspect.iscoroutine(result):
            try:
                result.send(None)  # these two handlers wait for nothing
            except StopIteration:
                pass
            finally:
                result.close()
        if kind in _WITH_REPLY:
            kernel._publish_status("idle", "shell", parent=message)  # ends the question
            kernel._publish_status("busy", "shell")  # and the cell still runs


def _kernel() -> Any:
    from ipykernel.kernelbase import Kernel

    return Kernel.instance() if Kernel.initialized() else None
