"""ipyparallel's controller without two things that cost its users time, and with one eye on its own processes.

Runs in the controller's process, whose schedulers and heart monitor are forked from it. Its control queue is not monitored: the
hub takes a copy of every control message and throws it away (measured: an eighth of all processor time while 200 MB went to two
workers). An engine is registered when it answers its first heartbeat, not with the heartbeat after that. If one of its processes
ends, which ipyparallel does not notice (no heartbeat any more, or no cell), all of it ends. Goes when ipyparallel does all this.
"""

from __future__ import annotations

import os

from ipyparallel.controller import heartmonitor
from ipyparallel.controller.app import IPController
from traitlets import Unicode
from zmq.devices import ProcessMonitoredQueue

_CONTROL = b"incontrol"  # the topic under which ipyparallel would monitor it
_LOOK_SECONDS = 1.0


class ProcessQueue(ProcessMonitoredQueue):
    """A queue that is monitored unless it carries control messages. (ipyparallel looks for "Process" in the name.)"""

    def connect_mon(self, address: str) -> None:
        if self._in_prefix != _CONTROL:
            super().connect_mon(address)  # type: ignore[no-untyped-call]


class PromptHeartMonitor(heartmonitor.HeartMonitor):  # type: ignore[misc]  # ipyparallel has no type information
    def handle_pong(self, message: list[bytes]) -> None:
        super().handle_pong(message)
        heart = message[0]
        if heart in self.responses and heart not in self.hearts:
            self.handle_new_hearts({heart})


class QuietController(IPController):  # type: ignore[misc]
    mq_class = Unicode(f"{ProcessQueue.__module__}.{ProcessQueue.__qualname__}")

    def init_hub(self) -> None:
        heartmonitor.HeartMonitor = PromptHeartMonitor  # its process is forked later, and finds the class by this name only
        super().init_hub()

    def init_signal(self) -> None:
        """The last thing before the loop starts; all processes are there."""
        super().init_signal()
        self._watch_processes()

    def _watch_processes(self) -> None:
        for child in [*self.children, self.heartmonitor_process]:
            process = getattr(child, "launcher", child)
            if not process.is_alive():
                self.log.critical(f"the controller's process {process.name} has ended, with exit code {process.exitcode}")
                os._exit(1)  # the others die with this one
        self.loop.call_later(_LOOK_SECONDS, self._watch_processes)
