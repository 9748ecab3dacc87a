"""Puts the magics into an IPython shell. Runs at `%load_ext gpulayer_nb`; imports nothing heavy."""

from __future__ import annotations

from typing import Any

from gpulayer_nb.magics.completion import complete_options
from gpulayer_nb.magics.control import ControlMagics
from gpulayer_nb.magics.ranks import RanksMagics
from gpulayer_nb.magics.training import TrainingMagics


def load(shell: Any) -> None:
    for magics in (TrainingMagics, RanksMagics, ControlMagics):
        shell.register_magics(magics)
    for word in ("%%gpulayer", "%%ranks"):
        shell.set_hook("complete_command", complete_options, str_key=word)
