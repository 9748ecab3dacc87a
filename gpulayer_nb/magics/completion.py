"""Tab completion of options in the first line of a cell."""

from __future__ import annotations

from typing import Any

from gpulayer_nb.magics.options import ranks_parser, training_parser


def complete_options(shell: Any, event: Any) -> list[str]:
    """IPython's `complete_command` hook: `event.line` is the line so far, `event.symbol` the word under the cursor."""
    parser = ranks_parser() if event.line.startswith("%%ranks") else training_parser()
    return [word for word in parser.option_words() if word.startswith(event.symbol or "--")]
