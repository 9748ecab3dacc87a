"""Tab in our magics: options and their values, run ids, and in a cell's body the names that live on the ranks.

Runs in the kernel. Owns which words may follow which. Must not take long: who presses Tab waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from gpulayer_nb.magics.option_parser import OptionParser
from gpulayer_nb.magics.options import ACTIONS, export_parser, launch_parser, ranks_parser, training_parser, up_parser
from gpulayer_nb.plan.accelerator import ACCELERATORS
from gpulayer_nb.records.fit_options import PRECISIONS

_NEWEST = 20  # run ids offered
_OF_A_RUN = ("attach", "stop", "stuck")
_VALUES = {
    "--accelerator": ACCELERATORS,
    "--precision": PRECISIONS,
    "--devices": ("auto",),
    "--resume": ("last",),
    "--to": ("torchrun", "slurm"),
}
_PARSERS: dict[str, Callable[[], OptionParser]] = {"up": up_parser, "launch": launch_parser, "export": export_parser}
_ON_RANKS = ("%%ranks", "%%gpulayer")
_NAMES = re.compile(r"[A-Za-z_]\w*(\.\w*)*$")  # what may be asked of a rank: names joined by dots


def complete_options(shell: Any, event: Any) -> list[str]:
    """IPython's `complete_command` hook: `event.line` is the line so far, `event.symbol` the word under the cursor."""
    before = event.line[: len(event.line) - len(event.symbol)].split()
    return [word for word in _words(before) if word.startswith(event.symbol)]


def _words(before: list[str]) -> list[str]:
    """What may follow these words."""
    magic, rest = before[0] if before else "", before[1:]
    if rest and rest[-1] == "--target":
        return _targets()
    if rest and rest[-1] in _VALUES:
        return list(_VALUES[rest[-1]])
    if magic == "%%ranks":
        return ranks_parser().option_words()
    if magic == "%%gpulayer":
        return training_parser().option_words()
    if not rest:
        return list(ACTIONS)
    if rest[0] in _OF_A_RUN:
        return _run_ids(only_on=rest[0] != "attach")
    if "--" in rest:
        return []  # these words are a script's own
    parser = _PARSERS.get(rest[0])
    return parser().option_words() if parser else []


def _targets() -> list[str]:
    """This machine, and the clusters that run here; profiles and files have names of their own."""
    from gpulayer_nb.client.targets import REMOTE, running_clusters

    running = [cluster.name for cluster in running_clusters()]
    return ["local", *([REMOTE] if len(running) == 1 else []), *running]


def _run_ids(*, only_on: bool) -> list[str]:
    """Newest first; with `only_on` those that are not over."""
    from gpulayer_nb.api import attach

    newest = attach.folders()[: -_NEWEST - 1 : -1]
    return [folder.path.name for folder in newest if not only_on or attach.state_of(folder) not in attach.OVER]


@context_matcher()  # type: ignore[untyped-decorator]  # IPython's own is not annotated
def names_on_ranks(context: CompletionContext) -> SimpleMatcherResult:
    """In the body of a cell for the ranks: names of rank 0. IPython adds the notebook's."""
    found = _NAMES.search(context.text_until_cursor)
    if not context.cursor_line or not is_for_ranks(context.full_text) or found is None:
        return SimpleMatcherResult(completions=[])
    from gpulayer_nb.api.looking import completions

    typed, token = found.group(), context.token
    lead = len(typed) - len(token) if typed.endswith(token) else 0  # of what is typed, IPython replaces the token
    return SimpleMatcherResult(completions=[SimpleCompletion(match[lead:], type="rank 0") for match in completions(typed)])


def is_for_ranks(cell: str) -> bool:
    return cell.lstrip().startswith(_ON_RANKS)
