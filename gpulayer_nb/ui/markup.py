"""Text made safe for HTML.

Runs in the kernel. Owns escaping and the reading of terminal colours. Must not know what the text says.
"""

from __future__ import annotations

import html
import re

_SEQUENCE = re.compile(r"\x1b\[([\d;]*)m|\x1b\[[\d;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[\]]?")
_CODE = re.compile(r"`([^`\n]+)`")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# JupyterLab's own names for terminal colours come first, so that both themes are readable; the fallbacks are for others.
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_FALLBACK = ("#3e424d", "#b71c1c", "#1b5e20", "#8a5a00", "#1565c0", "#8e24aa", "#00707a", "#757575")


def escape(text: str) -> str:
    """Text for between tags and for double-quoted attributes."""
    return html.escape(text, quote=True)


def with_code(text: str) -> str:
    """Escaped text; what stands between backquotes is set as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def plain(text: str) -> str:
    """Without escape sequences and control characters, tabs and newlines kept."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


def coloured(text: str) -> str:
    """HTML of terminal text: the 8 colours and bold become spans, other sequences go, all else is escaped."""
    out: list[str] = []
    bold, colour, at = False, None, 0
    for found in _SEQUENCE.finditer(text):
        out.append(_span(text[at : found.start()], bold, colour))
        at = found.end()
        if found.group(1) is not None:
            bold, colour = _style(found.group(1), bold, colour)
    out.append(_span(text[at:], bold, colour))
    return "".join(out)


def _style(codes: str, bold: bool, colour: int | None) -> tuple[bool, int | None]:
    numbers = [int(code or 0) for code in codes.split(";")]
    at = 0
    while at < len(numbers):
        code = numbers[at]
        if code == 0:
            bold, colour = False, None
        elif code == 1:
            bold = True
        elif code == 22:
            bold = False
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = code % 10
        elif code == 39:
            colour = None
        elif code in (38, 48):  # a colour out of 256 (5;n) or of all (2;r;g;b): left as plain text
            at += 2 if numbers[at + 1 : at + 2] == [5] else 4
        at += 1
    return bold, colour


def _span(text: str, bold: bool, colour: int | None) -> str:
    text = escape(_CONTROL.sub("", text))
    if not text or (not bold and colour is None):
        return text
    style = "font-weight:600;" if bold else ""
    if colour is not None:
        style += f"color:var(--jp-ansi-{_NAMES[colour]},{_FALLBACK[colour]});"
    return f'<span style="{style}">{text}</span>'
