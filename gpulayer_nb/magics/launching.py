"""`%gpulayer launch SCRIPT`."""

from __future__ import annotations

from gpulayer_nb.api.current import namespace
from gpulayer_nb.magics.options import environment, launch_parser


def launch(rest: str) -> str:
    """Runs a script; what follows ` -- ` is for the script."""
    from gpulayer_nb.api.launch import launch as run_script

    line, own = split_at_dashes(rest)
    options = launch_parser().read(line)
    run = run_script(
        options.script,
        nodes=options.nodes or 1,
        devices=options.devices or 1,
        args=own,
        env=environment(options),
        accelerator=options.accelerator,
        target=options.target or "local",
    )
    if options.save_as:
        namespace()[options.save_as] = run
    return ""


def split_at_dashes(line: str) -> tuple[str, list[str]]:
    """Our part of a line, and the words behind the first bare `--`."""
    import shlex

    from gpulayer_nb.errors import UsageError

    ours, dashes, theirs = f" {line} ".partition(" -- ")
    try:
        return ours.strip(), shlex.split(theirs) if dashes else []
    except ValueError as error:
        raise UsageError(f"`%gpulayer launch {line}` cannot be read: {error}.") from None
