"""`%gpulayer`: everything that is not a cell on ranks."""

from __future__ import annotations

from collections.abc import Callable

from gpulayer_nb.api import attach, overview
from gpulayer_nb.api.current import session
from gpulayer_nb.api.shape import target_for, topology_for
from gpulayer_nb.errors import UsageError
from gpulayer_nb.magics.exporting import export
from gpulayer_nb.magics.launching import launch
from gpulayer_nb.magics.options import ACTIONS, up_parser
from gpulayer_nb.plan.topology import Topology


def act(line: str) -> None:
    """One line of `%gpulayer`; prints what there is to say."""
    word, _, rest = line.strip().partition(" ")
    actions: dict[str, Callable[[str], str]] = {
        "up": _up, "down": _down, "workers": _workers, "ranks": _ranks, "runs": _runs,
        "attach": _attach, "stop": _stop, "stuck": _stuck, "launch": launch, "export": export,
    }  # fmt: skip
    if word not in actions:
        raise UsageError(
            f"%gpulayer {word or '(nothing)'}: write one of {', '.join(ACTIONS)}; "
            "`%%gpulayer` in the first line of a cell trains."
        )
    text = actions[word](rest)
    if text:
        print(text)


def _up(rest: str) -> str:
    from gpulayer_nb.api import provisioning

    parser, here = up_parser(), session()
    options, words = parser.read_known(rest)
    if words and options.target != provisioning.SLURM:
        parser.refuse(words[0])
    target = target_for(options.target, here.target)
    wishes = provisioning.wishes_for(target, options, words)
    if wishes is not None:
        here.provision(wishes, say=_say)
        target, topology = wishes.name, Topology(wishes.nodes, wishes.devices)
    else:
        topology = topology_for(options.nodes, options.devices, here.topology, accelerator=options.accelerator, default_devices=2)
    here.up(topology, options.accelerator, target, say=_say)
    return overview.ranks_table(here)


def _say(text: str) -> None:
    print(f"{text} …", flush=True)


def _down(rest: str) -> str:
    from gpulayer_nb.api.attaching import still_on

    session().down()
    return "\n".join(
        f"Run {run.run_id} is detached and goes on. Next: `%gpulayer stop {run.run_id}` ends it." for run in still_on()
    )


def _workers(rest: str) -> str:
    return overview.workers_table(session())


def _ranks(rest: str) -> str:
    return overview.ranks_table(session())


def _runs(rest: str) -> str:
    return attach.table()


def _attach(rest: str) -> str:
    from gpulayer_nb.api.attaching import attach as attach_to

    attach_to(rest.strip() or None)
    return ""


def _stop(rest: str) -> str:
    return attach.stop(attach.find(rest.strip() or None))


def _stuck(rest: str) -> str:
    return attach.where(attach.find(rest.strip() or None))
