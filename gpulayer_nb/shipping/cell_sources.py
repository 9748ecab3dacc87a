"""The text of the cells that shipped code was written in, so that tracebacks on the other side show the user's lines.

Collected where code is packed, registered where it is unpacked. Owns the use of linecache. Must not know what the code does.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping
from typing import Any

from gpulayer_nb.shipping.shipment import CellSource


def cell_sources(filenames: Iterable[str], shell: Any = None) -> dict[str, CellSource]:
    """The cells among these files: those whose text lies in linecache and on no disk.

    Args:
        filenames: as the code objects carry them.
        shell: the IPython shell that numbers its cells, if there is one.
    """
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    found: dict[str, CellSource] = {}
    for filename in filenames:
        entry = linecache.cache.get(filename)
        if entry is not None and len(entry) == 4 and entry[1] is None:  # no time of change: never was a file
            found[filename] = CellSource("".join(entry[2]), numbers.get(filename))
    return found


def register_sources(sources: Mapping[str, CellSource], shell: Any = None) -> None:
    """Let tracebacks of this process find the cells, and IPython's call them `Cell In[n]` with the notebook's numbers.

    Args:
        sources: by file name.
        shell: this process's IPython shell, if there is one.
    """
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    for filename, source in sources.items():
        linecache.cache[filename] = (len(source.text), None, source.text.splitlines(keepends=True), filename)
        if numbers is not None and source.execution_count is not None:
            numbers[filename] = source.execution_count
