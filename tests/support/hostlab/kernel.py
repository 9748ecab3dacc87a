"""A notebook on a host: its kernel runs there, the test speaks to it through files, which need no network."""

from __future__ import annotations

import itertools

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from real_notebook import Notebook

from hostlab.host import Host

_numbers = itertools.count()


class _ManagerOnHost(KernelManager):
    host: Host

    @property
    def kernel_spec(self) -> KernelSpec:  # type: ignore[override]
        import sys

        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=self.host.command(launch, "/tmp"), display_name="Python on a host", language="python")


def notebook_on(host: Host, env: dict[str, str] | None = None) -> Notebook:
    """Starts a kernel on the host, in the host's own /tmp."""
    manager = _ManagerOnHost(transport="ipc", connection_file=str(host.folder / f"kernel-{next(_numbers)}.json"))
    manager.host = host
    return Notebook("/", manager, host.environment(env))
