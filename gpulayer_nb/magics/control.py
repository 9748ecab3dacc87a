"""`%gpulayer`: everything that is not a cell on ranks."""

from __future__ import annotations

from collections.abc import Callable

from IPython.core.magic import Magics, line_magic, magics_class

from gpulayer_nb.api import attach, overview
from gpulayer_nb.api.current import session
from gpulayer_nb.api.runs import runs
from gpulayer_nb.api.shape import topology_for
from gpulayer_nb.errors import UsageError
from gpulayer_nb.magics.options import up_parser

_ACTIONS = "up, down, workers, ranks, runs, attach, stop, stuck"


@magics_class
class ControlMagics(Magics):
    @line_magic
    def gpulayer(self, line: str) -> None:
        """`up [--nodes N --devices D]`, `down`, `workers`, `ranks`, `runs`, `attach [RUN]`, `stop [RUN]`, `stuck [RUN]`."""
        word, _, rest = line.strip().partition(" ")
        actions: dict[str, Callable[[str], str]] = {
            "up": _up, "down": _down, "workers": _workers, "ranks": _ranks, "runs": _runs,
            "attach": _attach, "stop": _stop, "stuck": _stuck,
        }  # fmt: skip
        if word not in actions:
            raise UsageError(
                f"%gpulayer {word or '(nothing)'}: write one of {_ACTIONS}; `%%gpulayer` in the first line of a cell trains."
            )
        text = actions[word](rest)
        if text:
            print(text)


def _up(rest: str) -> str:
    options = up_parser().read(rest)
    here = session()
    topology = topology_for(options.nodes, options.devices, here.topology, accelerator=options.accelerator, default_devices=2)
    here.up(topology, say=lambda text: print(f"{text} …", flush=True))
    return overview.ranks_table(here)


def _down(rest: str) -> str:
    session().down()
    return ""


def _workers(rest: str) -> str:
    return overview.workers_table(session())


def _ranks(rest: str) -> str:
    return overview.ranks_table(session())


def _runs(rest: str) -> str:
    return attach.table()


def _attach(rest: str) -> str:
    from gpulayer_nb.api.attaching import attach as attach_to

    runs.add(attach_to(rest.strip() or None))
    return ""


def _stop(rest: str) -> str:
    return attach.stop(attach.find(rest.strip() or None))


def _stuck(rest: str) -> str:
    return attach.where(attach.find(rest.strip() or None))
