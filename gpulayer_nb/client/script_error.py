"""What a script's rank had to say when it ended badly, and which of several ends was first. Pure.

Runs in the process that drives a launch.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpulayer_nb.plan.topology import RankPlace
from gpulayer_nb.records.echoes import ECHO_TYPES, is_echo_text

_RANK_PREFIX = re.compile(r"^\[rank\d+\]: ", re.MULTILINE)  # torch's excepthook, in a process group
# on every connection where addresses have no names; it means nothing
_NOISE = re.compile(r"^\[W[^\n]*\[c10d\] The hostname of the client socket cannot be retrieved[^\n]*\n", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.DOTALL)
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LIBRARY = re.compile(r"site-packages|dist-packages|<frozen |[/\\]lib[/\\]python\d")
_LAST_LINES = 12

UNCAUGHT_EXIT_CODE = 1  # Python's own after a traceback
_SECONDARY_CODES = (-signals.SIGTERM, -signals.SIGABRT, -signals.SIGINT)


@dataclass(frozen=True)
class ScriptError:
    """The last traceback of a rank: its error, the user's own lines of it, and where the innermost of them is."""

    error_type: str
    message: str
    text: str
    file: str = ""
    line: int | None = None

    @property
    def is_echo(self) -> bool:
        """Whether it only says that another rank has gone, or that this one was told to stop."""
        kind = self.error_type.rpartition(".")[2]
        if kind in (*ECHO_TYPES, "KeyboardInterrupt"):
            return True
        return kind in ("RuntimeError", "ConnectionResetError", "BrokenPipeError") and is_echo_text(self.message)


@dataclass(frozen=True)
class BadEnd:
    """A rank that ended otherwise than well. `error` is None if it left no traceback; `last_words` are its last lines.

    `is_late`: its launch was being ended by then.
    """

    place: RankPlace
    worker: str
    exit_code: int
    time: float
    error: ScriptError | None
    last_words: str = ""
    is_late: bool = False

    @property
    def aborted_while_ending(self) -> bool:
        """torch may abort a process that leaves with its process group open, after Python has said what was wrong."""
        return self.error is not None and self.exit_code == -signals.SIGABRT

    @property
    def shell_code(self) -> int:
        """As a shell has it: 128 and a signal's number, or the exit code; Python's own if a traceback came first."""
        if self.aborted_while_ending:
            return UNCAUGHT_EXIT_CODE
        return self.exit_code if self.exit_code > 0 else 128 - self.exit_code

    @property
    def is_secondary(self) -> bool:
        """Whether it ended because another had."""
        if self.error is not None:
            return self.error.is_echo
        return self.is_late or self.exit_code in _SECONDARY_CODES


def first_cause(ends: Sequence[BadEnd]) -> BadEnd | None:
    """The earliest end that is not the echo of another; of echoes alone, the earliest one that says something."""
    own = [end for end in ends if not end.is_secondary]
    spoken = [end for end in ends if end.error is not None]
    return min(own or spoken or ends, key=lambda end: end.time, default=None)


def without_rank_prefix(text: str) -> str:
    """torch puts `[rank1]: ` before each line of a traceback; who wrote it is said by us."""
    return _RANK_PREFIX.sub("", text)


def without_noise(text: str) -> str:
    """What torch warns of without need is left out."""
    return _NOISE.sub("", text)


def script_error(stderr: str) -> ScriptError | None:
    """The last traceback in what a rank wrote; None if there is none."""
    lines = without_rank_prefix(stderr).splitlines()
    starts = [number for number, line in enumerate(lines) if line == _TRACEBACK]
    if not starts:
        return _syntax_error(lines)
    at = starts[-1] + 1
    frames: list[list[str]] = []
    while at < len(lines) and lines[at].startswith(" "):
        if _FRAME.match(lines[at]):
            frames.append([])
        if frames:
            frames[-1].append(lines[at])
        at += 1
    return _described(frames, lines[at:])


def _described(frames: list[list[str]], rest: Sequence[str]) -> ScriptError | None:
    said = _ERROR.match("\n".join(rest[:_LAST_LINES]).strip())
    if said is None:
        return None
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    where = _FRAME.match(own[-1][0]) if own else None
    left_out = len(frames) - len(own)
    note = [f"  ({left_out} lines of libraries are left out; all are in the rank's log)"] if left_out else []
    message = (said["message"] or "").strip()
    text = "\n".join([_TRACEBACK, *(line for frame in own or frames for line in frame), *note, *rest[:_LAST_LINES]])
    return ScriptError(said["type"], message, text, where["file"] if where else "", int(where["line"]) if where else None)


def _syntax_error(lines: Sequence[str]) -> ScriptError | None:
    """A file that does not compile has no traceback, only `  File "x.py", line 3` and the error."""
    starts = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not starts:
        return None
    block = list(lines[starts[-1] :])
    frame = [line for line in block if line.startswith(" ")]
    return _described([frame], block[len(frame) :])


def last_lines(text: str) -> str:
    return "\n".join(without_rank_prefix(text).rstrip().splitlines()[-_LAST_LINES:])


def how(exit_code: int) -> str:
    """`exit code 1`, `signal 9 (SIGKILL), often out of memory`."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        name = f" ({signals.Signals(-exit_code).name})"
    except ValueError:
        name = ""
    return f"signal {-exit_code}{name}" + (", often out of memory" if exit_code == -signals.SIGKILL else "")


def describe(cause: BadEnd, script: str, codes: Mapping[int, int | None]) -> str:
    """One paragraph: what, who, where, what of the others, what next."""
    place = cause.place
    who = f"rank {place.rank} (node {place.node_rank}, local rank {place.local_rank}, worker {cause.worker})"
    error = cause.error
    if error is not None:
        where = f", in {error.file.replace(chr(92), '/').rpartition('/')[2]} line {error.line}" if error.line is not None else ""
        what = f"{error.error_type}: {error.message.splitlines()[0] if error.message else '(no message)'}"
        ended = how(UNCAUGHT_EXIT_CODE) + f", then {how(cause.exit_code)} while it was ending"
        head = f"{what} — {who}{where}, {ended if cause.aborted_while_ending else how(cause.exit_code)}."
    else:
        head = f"{who[0].upper()}{who[1:]} ended with {how(cause.exit_code)} and left no traceback."
    others = len(codes) - 1
    ended = f" The other {others} rank{'s' if others != 1 else ''} were ended." if others else ""
    return f"{head}{ended} Next: correct {script}, or read all that a rank wrote in `run.logs[{place.rank}]`."
