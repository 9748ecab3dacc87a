"""Everything a user can be told. Used by every part; imports nothing of ours.

GpuLayerError
├── UsageError        an option, a name or a value that cannot be; says what to write instead
├── PlanError         the workers at hand cannot host what was asked; says how many there are
├── ShippingError     something the cell needs cannot be sent to the ranks; names it
├── ClusterError      controller, worker or engines did not come up, or went away
└── RunFailed         a rank raised, died or was lost while a run was on
RunStopped            the user stopped the run (a KeyboardInterrupt, so "run all cells" stops too)
"""

from __future__ import annotations


class _OneParagraph:
    """Renders in IPython as its message alone: the frames between us and the user explain nothing."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class GpuLayerError(_OneParagraph, Exception):
    """Base of every error raised for something a user can mend: one readable paragraph with the next step."""


class UsageError(GpuLayerError):
    """An option, a name or a value that cannot be."""


class PlanError(GpuLayerError):
    """The workers at hand cannot host what was asked. Nothing was started."""


class ShippingError(GpuLayerError):
    """Something the cell needs cannot be sent to the ranks. Nothing was run."""


class ClusterError(GpuLayerError):
    """The controller, a worker or an engine did not come up, or went away."""


class RunFailed(GpuLayerError):
    """A rank raised, died or was lost; the whole run has ended.

    Args:
        message: what happened, to whom, what was kept, what to do next.
        report: text shown above the message, for example the failing rank's own traceback (may hold ANSI colours).
        tracebacks: what every rank that raised has to say, echoes too, by rank; also in the run folder.
    """

    def __init__(self, message: str, report: str = "", tracebacks: dict[int, str] | None = None) -> None:
        super().__init__(message)
        self.report = report
        self.tracebacks = tracebacks or {}

    def _render_traceback_(self) -> list[str]:
        head = [self.report.rstrip("\n"), ""] if self.report else []
        return [*head, f"{type(self).__name__}: {self}"]


class RunStopped(_OneParagraph, KeyboardInterrupt):
    """The user stopped the run; weights and history up to the last common step are kept."""
