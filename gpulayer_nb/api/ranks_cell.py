"""Runs a `%%ranks` cell and shows its output in rank order. Runs in the kernel."""

from __future__ import annotations

from typing import Any

from gpulayer_nb.api.execute import execute
from gpulayer_nb.client.run_request import RunRequest
from gpulayer_nb.client.session import Session, SessionOutcome
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.ranks_view import RanksView


def run_ranks_cell(session: Session, request: RunRequest) -> list[Any]:
    """The values of the last expression in rank order, if the request collects them."""

    def make_view(history: RunHistory) -> RanksView:
        return RanksView(history)

    executed = execute(session, request, make_view, _finish)
    for rank, data, metadata in sorted(executed.outcome.listener.displays, key=lambda display: display[0]):
        _show(rank, data, metadata)
    return executed.run.values


def _finish(view: RanksView, outcome: SessionOutcome | None) -> None:
    results = outcome.ranks.results if outcome is not None else {}
    view.finish({rank: result.value_text for rank, result in results.items() if result.value_text is not None})


def _show(rank: int, data: dict[str, Any], metadata: dict[str, Any]) -> None:
    """What a rank displayed (a plot, a table), under its number."""
    from IPython.display import display

    print(f"[rank {rank}] displays:")
    display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]  # IPython leaves it untyped
