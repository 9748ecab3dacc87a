"""`glt.launch`: an existing script, unchanged, through torchrun on each node.

Runs in the kernel, in a plain process, and on ranks, where it does nothing; so it imports nothing heavy. Owns what one may ask.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer_nb.api.launch_request import LaunchRequest
from gpulayer_nb.api.launch_script import checked_script, is_rank, own_script
from gpulayer_nb.api.shape import topology_for
from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.accelerator import check_accelerator

if TYPE_CHECKING:
    from gpulayer_nb.api.run import Run


def launch(
    script: str | Path | None = None,
    *,
    nodes: int = 1,
    devices: int | str = 1,
    args: Sequence[Any] | None = None,
    env: Mapping[str, Any] | None = None,
    accelerator: str = "auto",
    target: str = "local",
    wait: bool = True,
) -> Run | None:
    """Runs a DDP script on `nodes` × `devices` ranks, each started by torchrun as on a cluster.

    Without `script`, as the first line of a script, it launches that script and ends; on the ranks it returns at once.

    Args:
        script: path of a Python script that torchrun could run.
        nodes: torchrun agents; on this machine they are simulated nodes.
        devices: ranks on each node.
        args: the script's arguments (without `script` by default those of this program).
        env: environment variables of the ranks.
        accelerator: "cuda" refuses a node with too few GPUs, "cpu" hides them; "auto" leaves the choice to the script.
        target: where to run; "local" is this machine.
        wait: False returns at once; look at `run.state`, end it with `run.stop()`.

    Returns:
        The Run: `.state`, `.logs[rank]`, `.exit_codes[rank]`, `.stop()`. None on a rank.

    Raises:
        UsageError: no such file, not Python, a number that cannot be.
        RunFailed: a rank failed; with its traceback. The Run is `glt.runs[-1]`.
        RunStopped: the user stopped it.
    """
    if script is None and is_rank():
        return None
    if args is None and script is None:
        args = sys.argv[1:]
    request = request_for(
        own_script() if script is None else script,
        nodes=nodes, devices=devices, args=args, env=env, accelerator=accelerator, target=target,
    )  # fmt: skip
    from gpulayer_nb.api import launching  # not on a rank, where it would cost a second

    if script is None:
        sys.exit(launching.exit_code(request))
    if not wait:
        return launching.in_background(request)
    run, _ = launching.execute(request)
    if run.error is not None:
        raise run.error from None
    return run


def request_for(
    script: str | Path,
    *,
    nodes: Any,
    devices: Any,
    args: Sequence[Any] | None,
    env: Mapping[str, Any] | None,
    accelerator: str,
    target: str,
) -> LaunchRequest:
    """What was asked for, checked.

    Raises:
        UsageError: no such file, not Python, a number that cannot be.
    """
    if isinstance(args, str):
        raise UsageError(f"args is {args!r}; give a list, for example args={args.split()!r}.")
    return LaunchRequest(
        script=checked_script(script),
        topology=topology_for(nodes, devices, None, accelerator=accelerator, default_devices=1),
        arguments=tuple(map(str, args or ())),
        env={name: str(value) for name, value in (env or {}).items()},
        accelerator=check_accelerator(accelerator),
        target=target,
        folder=Path.cwd(),
    )
