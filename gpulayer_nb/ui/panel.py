"""What the curves show: the step between a run's history and a drawing.

Runs in the kernel. Owns which metrics share a panel, thinning, axis ends and captions. Must not know how it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpulayer_nb.records.curve import Curve, TrailingMean
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.non_finite import NonFiniteMark
from gpulayer_nb.ui import number

MAX_PANELS = 8  # more metrics than that are in the table and in the rows

_PREFIXES = {"train": ("train_", "train/"), "val": ("val_", "val/", "valid_", "validation_"), "test": ("test_", "test/")}


def family(name: str) -> str:
    """The metric behind a name: `val_loss`, `train_loss` and `loss` are one family."""
    for prefixes in _PREFIXES.values():
        for prefix in prefixes:
            if name.startswith(prefix) and len(name) > len(prefix):
                return name[len(prefix) :]
    return name


def chosen_first(families: Iterable[str], chosen: Sequence[str]) -> list[str]:
    """The families of `chosen` metrics before the others; otherwise the order stays."""
    places = {family(name): at for at, name in reversed(list(enumerate(chosen)))}
    return sorted(families, key=lambda name: places.get(name, len(places)))


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line; a NaN breaks it."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric family. `raw` holds single steps, `mean` their trailing mean, `train` and `val` epoch means."""

    name: str
    hue: int
    raw: Series
    mean: Series
    train: Series
    val: Series
    gaps: tuple[tuple[int, int, str], ...] = ()  # first step, last step, words
    note: str = ""  # for example "from 1 of 2 ranks"

    def caption(self, over: bool, ends: dict[int, int]) -> list[tuple[str, str, str]]:
        """(`train` or `val`, value, what it is): the trailing mean while running, the exact epoch means at the end."""
        out = []
        if self.train.steps and (over or not self.mean.steps):
            out.append(("train", number.metric(self.train.values[-1]), _epoch_of(self.train.steps[-1], ends)))
        elif self.mean.steps:
            out.append(("train", number.metric(self.mean.values[-1]), self.note))
        if self.val.steps:
            out.append(("val", number.metric(self.val.values[-1]), _epoch_of(self.val.steps[-1], ends)))
        return out


@dataclass(frozen=True, slots=True)
class Chart:
    """All panels and what they share: the x axis, the marks at epoch ends, how the run ended."""

    panels: tuple[Panel, ...]
    left: int  # global_step at the left edge
    right: int
    epoch_ends: dict[int, int]  # 0-based epoch: its last step, done or to come
    state: str
    last_step: int

    def alt(self) -> str:
        """The last values in words, for readers who do not see the picture."""
        said = [
            f"{panel.name}: " + ", ".join(f"{kind} {value} {what}".strip() for kind, value, what in caption)
            for panel in self.panels
            if (caption := panel.caption(self.state in ("finished", "stopped", "failed"), self.epoch_ends))
        ]
        return f"curves up to step {number.count(self.last_step)}; " + "; ".join(said) if said else "no step yet"


class _Track:
    """The growing lines of one metric; reads only what is new."""

    def __init__(self) -> None:
        self.raw, self.mean = Curve(), Curve()
        self._means = TrailingMean()
        self._read = 0

    def update(self, history: RunHistory, name: str) -> None:
        steps, values = history.column(name, self._read)
        self._read += len(steps)
        self.raw.extend(steps, values)
        self.mean.extend(steps, self._means.extend(values))


class ChartModel:
    """Keeps thinned lines beside a history. The cost of `chart` depends on what is new, not on the number of steps."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._tracks: dict[str, _Track] = {}  # by family, in order of appearance
        self._names: dict[str, str] = {}  # family: the metric with step values
        self._epochs: dict[tuple[str, str], Curve] = {}  # (family, split): epoch means
        self._epochs_read = 0
        self._right = 0

    def read(self) -> None:
        """Take in what is new."""
        history = self._history
        for name in history.metric_names:
            base = family(name)
            if self._names.setdefault(base, name) == name:
                self._tracks.setdefault(base, _Track()).update(history, name)
        for row in history.epochs(self._epochs_read):
            self._epochs_read += 1
            for name, value in row.values.items():
                if row.split in ("train", "val"):
                    base = family(name)
                    self._tracks.setdefault(base, _Track())
                    self._epochs.setdefault((base, row.split), Curve()).extend((row.global_step,), (value,))

    def chart(self) -> Chart:
        """Read what is new and give the whole picture."""
        return self._chart(self._panel)

    def outline(self) -> Chart:
        """Read what is new and give the picture without the points of its lines, which costs little."""
        return self._chart(self._frame)

    def _chart(self, make: Callable[[str, int], Panel]) -> Chart:
        self.read()
        history = self._history
        shown = chosen_first(self._tracks, history.chosen)[:MAX_PANELS]
        panels = [make(base, hue) for hue, base in enumerate(shown)]
        left = history.fit.start_step if history.fit else 0
        return Chart(tuple(panels), left, self._edge(left), self._marks(left), history.state, history.last_step)

    def _frame(self, base: str, hue: int) -> Panel:
        name = self._names.get(base, "")
        return Panel(base, hue, Series(), Series(), Series(), Series(), self._gaps(name), self._note(name))

    def _panel(self, base: str, hue: int) -> Panel:
        track, name = self._tracks[base], self._names.get(base, "")
        train, val = (self._epochs.get((base, split), Curve()) for split in ("train", "val"))
        raw, mean, train_means, val_means = (Series(*curve.points()) for curve in (track.raw, track.mean, train, val))
        return Panel(base, hue, raw, mean, train_means, val_means, self._gaps(name), self._note(name))

    def _gaps(self, name: str) -> tuple[tuple[int, int, str], ...]:
        found = [mark for mark in self._history.non_finite if mark.name == name]
        widest = sorted(sorted(found, key=lambda m: -m.steps)[:3], key=lambda m: m.first_step)
        return tuple((m.first_step, m.last_step, _gap_words(m)) for m in widest)

    def _note(self, name: str) -> str:
        fewest = self._history.fewest_ranks(name)
        size = self._history.world_size
        return f"from {fewest} of {size} ranks" if fewest is not None and fewest < size else ""

    def _edge(self, left: int) -> int:
        """The right edge grows by whole epochs (or by halves of what there is) and never shrinks."""
        done = max(1, self._history.last_step - left)
        per_epoch, end = self._history.steps_per_epoch, self._history.end_step
        if self._history.state == "finished":
            return left + done
        whole = math.ceil(done / per_epoch) * per_epoch if per_epoch else _round_up(done)
        right = left + whole if end is None else min(left + whole, max(end, left + done))
        self._right = max(self._right, right)
        return self._right

    def _marks(self, left: int) -> dict[int, int]:
        ends = self._history.epoch_ends
        per_epoch = self._history.steps_per_epoch
        if per_epoch and self._history.state != "finished":
            last = max(ends, default=(self._history.fit.start_epoch if self._history.fit else 0) - 1)
            ends.setdefault(last + 1, ends.get(last, left) + per_epoch)
        return ends


def _gap_words(mark: NonFiniteMark) -> str:
    """`NaN, step 655, rank 1`; `NaN, 41 steps from 655, rank 1`: the first rank that had it."""
    first = number.count(mark.first_step)
    where = f"step {first}" if mark.steps == 1 else f"{number.count(mark.steps)} steps from {first}"
    return f"NaN, {where}, rank {mark.rank}"


def _epoch_of(step: int, ends: dict[int, int]) -> str:
    return next((f"epoch {epoch + 1}" for epoch, end in reversed(ends.items()) if end == step), "")


def _round_up(steps: int) -> int:
    size: int = 10 ** math.floor(math.log10(max(10, steps)))
    return next(m * size // 2 for m in range(2, 30) if m * size // 2 >= steps)
