"""Where a fit is, readable from any thread while it runs.

Written by the loop only; an engine's control thread reads it for status and for the place of an error.
"""

from __future__ import annotations


class FitPosition:
    """Attributes are replaced one at a time, so a reader may see a step's new number beside the old batch index."""

    __slots__ = ("batch_index", "epoch", "global_step", "own_seconds", "phase", "samples")

    def __init__(self) -> None:
        self.phase = "train"  # "train", "val", "test" or "predict"
        self.epoch = 0
        self.batch_index = -1  # the batch in hand, -1 before the first
        self.global_step = 0  # optimizer steps done
        self.samples = 0  # samples this rank has trained on
        self.own_seconds = 0.0  # spent on batches and forwards of training: what a rank does alone, waiting for no other

    def __repr__(self) -> str:
        return f"FitPosition({self.phase}, epoch {self.epoch}, batch {self.batch_index}, global_step {self.global_step})"
