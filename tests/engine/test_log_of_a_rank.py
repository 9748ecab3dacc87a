"""What a rank writes goes to its log; the log never costs the run anything."""

import contextlib
from pathlib import Path

from gpulayer_nb.engine.runtime import _forgiving


def test_a_log_on_a_full_disk_loses_text_and_nothing_else():
    with _forgiving(Path("/dev/full")) as log, contextlib.suppress(OSError):
        log.write("a line that finds no room\n")
    assert log.closed
