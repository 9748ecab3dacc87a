"""Code and names inside the calls that IPython's transform makes of magics and `!commands`.

Runs in the kernel. Owns which magics hold Python code. Must not know scopes: the walk over the cell does.
"""

from __future__ import annotations

import ast
import re

_CODE_LINES = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun"})
_CODE_CELLS = frozenset({"time", "timeit", "prun", "memit", "capture"})
_OPTIONS = re.compile(r"^\s*(?:-(?:n|r|p|s|l|f|T|D|t|c|o|q)\s*\d*\S*\s+)*")
_EXPANDED = re.compile(r"\{([^{}]+)\}|(?<![\\$])\$([A-Za-z_]\w*)")
_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


def code_of_magic(call: ast.Call) -> tuple[str, str]:
    """The Python code a `get_ipython()....` call runs, and the text in which IPython replaces `{expression}` and `$name`.

    Both are empty for any other call.
    """
    function = call.func
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call)):
        return "", ""
    if getattr(function.value.func, "id", "") != "get_ipython":
        return "", ""
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if function.attr == "run_cell_magic" and len(texts) == 3:
        name, line, body = texts
        if name in _CODE_CELLS:
            first = "" if name == "capture" else _without_options(line)  # %%timeit's line is its set-up code
            return f"{first}\n{body}", ""
        return "", f"{line}\n{body}"
    if function.attr == "run_line_magic" and len(texts) == 2:
        name, line = texts
        return (_without_options(line), line) if name in _CODE_LINES else ("", line)
    if function.attr in {"system", "getoutput"} and texts:
        return "", texts[0]
    return "", ""


def expanded_names(text: str) -> list[str]:
    """Every word that may be a name in the `{expressions}` and `$names` of a text."""
    found: dict[str, None] = {}
    for expression, name in _EXPANDED.findall(text):
        found.update(dict.fromkeys(_WORD.findall(expression) if expression else [name]))
    return list(found)


def _without_options(line: str) -> str:
    return _OPTIONS.sub("", line, count=1)
