"""The IPython kernel inside an engine, with our control-channel requests.

Runs in each rank's process; the handlers run on the control thread, so they answer while the main thread is busy.
Owns routing only: `Runtime.answer` decides.
"""

from __future__ import annotations

import threading
from typing import Any

from ipyparallel.engine.kernel import IPythonParallelKernel

from gpulayer_nb.engine.runtime import Runtime
from gpulayer_nb.records.wire import ENGINE_REQUESTS


class _NoShellChannelThread:
    """False, so that the kernel starts no such thread, yet with the attribute that ipykernel 7.4 reads for cells that await.

    Without it a top-level `await` in an engine never answers. Goes when ipyparallel gives its kernel a shell channel thread.
    """

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


class RankKernel(IPythonParallelKernel):  # type: ignore[misc]  # ipyparallel has no type hints
    """IPythonParallelKernel that answers our requests."""

    shell_channel_thread = _NoShellChannelThread()
    control_msg_types = [*IPythonParallelKernel.control_msg_types, *ENGINE_REQUESTS]
    runtime: Runtime

    @property
    def _supports_kernel_subshells(self) -> bool:
        return False

    def __init__(self, **kwargs: Any) -> None:
        for request in ENGINE_REQUESTS:
            setattr(self, request, self._answer)  # ipykernel looks handlers up by message type
        super().__init__(**kwargs)

    def _answer(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        request = parent["header"]["msg_type"]
        content = self.runtime.answer(request, parent["content"])
        self.session.send(stream, f"{request}_reply", content={"status": "ok", **content}, parent=parent, ident=ident)
