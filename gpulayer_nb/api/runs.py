"""The runs of this kernel, oldest first: `glt.runs[-1]` is the last one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from gpulayer_nb.api.run import Run
from gpulayer_nb.errors import UsageError


class Runs(Sequence[Run]):
    """Reads like a list; `named` finds those of `--as NAME`."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def add(self, run: Run) -> None:
        """Puts a run at the end; one that is here already stays in its place."""
        if run not in self._runs:
            self._runs.append(run)

    def find(self, run_id: str) -> Run | None:
        return next((run for run in self._runs if run.run_id == run_id), None)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> list[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | list[Run]:
        try:
            return self._runs[index]
        except IndexError:
            have = f"{len(self._runs)} so far" if self._runs else "none so far"
            raise UsageError(f"There is no run {index} in this kernel ({have}). Next: train one with `%%gpulayer`.") from None

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs))

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return "\n".join(repr(run) for run in self._runs) or "no runs yet"


runs = Runs()  # one kernel, one list: the user's own handle on its past
