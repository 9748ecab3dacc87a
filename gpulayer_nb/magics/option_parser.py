"""Parses a magic's line. Owns the words of usage errors; knows no option by name."""

from __future__ import annotations

import argparse
import difflib
import shlex
from typing import NoReturn

from gpulayer_nb.errors import UsageError


class OptionParser(argparse.ArgumentParser):
    """argparse that raises one-line UsageErrors and never exits."""

    def __init__(self, magic: str, description: str) -> None:
        super().__init__(
            prog=magic, description=description, add_help=False, allow_abbrev=False, formatter_class=argparse.RawTextHelpFormatter
        )

    def read(self, line: str) -> argparse.Namespace:
        """The options on a magic's line.

        Raises:
            UsageError: an unknown option (names the nearest), a missing value, an open quote.
        """
        options, unknown = self.read_known(line)
        if unknown:
            self.refuse(unknown[0])
        return options

    def read_known(self, line: str) -> tuple[argparse.Namespace, list[str]]:
        """The same, and the words that are no options of ours, in order."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"`{self.prog} {line}` cannot be read: {error}.") from None
        return self.parse_known_args(words)

    def option_words(self) -> list[str]:
        """Every option, for completion and for finding the nearest."""
        return sorted(word for action in self._actions for word in action.option_strings)

    def refuse(self, word: str) -> NoReturn:
        name = word.split("=")[0]
        nearest = difflib.get_close_matches(name, self.option_words(), n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else f" `{self.prog}?` lists them."
        kind = "option" if name.startswith("-") else "word"
        raise UsageError(f"{self.prog} knows no {kind} {name}.{hint}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}. `{self.prog}?` shows the options.")
