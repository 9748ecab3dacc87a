"""Puts the magics into an IPython shell. Runs at `%load_ext gpulayer_nb`; imports nothing heavy."""

from __future__ import annotations

from typing import Any

from gpulayer_nb.magics.completion import complete_options, names_on_ranks
from gpulayer_nb.magics.inspection import look_on_ranks_too
from gpulayer_nb.magics.shell_magics import CellMagics, LineMagics


def load(shell: Any) -> None:
    shell.register_magics(CellMagics, LineMagics)
    for word in ("%%gpulayer", "%%ranks", "%gpulayer"):
        shell.set_hook("complete_command", complete_options, str_key=word)
    if names_on_ranks not in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.append(names_on_ranks)
    if (kernel := getattr(shell, "kernel", None)) is not None:
        look_on_ranks_too(kernel)
