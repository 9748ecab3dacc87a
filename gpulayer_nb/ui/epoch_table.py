"""The epoch means of a run as a table.

Runs in the kernel. Owns which columns there are and their order. Must not know HTML or terminals.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.panel import family


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One epoch, counted from 0, and its means in the order of the table's names; None where there is none."""

    epoch: int
    global_step: int
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class EpochTable:
    """Names of one family stand together: loss, val_loss, acc, val_acc."""

    names: tuple[str, ...]
    rows: tuple[EpochRow, ...]


def epoch_table(history: RunHistory) -> EpochTable:
    """One row per epoch with the means of all splits."""
    values: dict[int, dict[str, float]] = {}
    steps: dict[int, int] = {}
    families: dict[str, dict[str, None]] = {}
    for record in history.epochs():
        values.setdefault(record.epoch, {}).update(record.values)
        steps[record.epoch] = max(steps.get(record.epoch, 0), record.global_step)
        for name in record.values:
            families.setdefault(family(name), {})[name] = None
    names = tuple(name for members in families.values() for name in sorted(members, key=lambda n: n.startswith(("val", "test"))))
    return EpochTable(names, tuple(EpochRow(e, steps[e], tuple(values[e].get(n) for n in names)) for e in sorted(values)))
