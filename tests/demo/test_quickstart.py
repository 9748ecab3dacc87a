"""`gpulayer demo` from outside, as its user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_reaches_95_per_cent_and_leaves_curves_and_records() -> None:
    done = subprocess.run([sys.executable, "-m", "gpulayer_nb", "demo"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    reached = re.search(r"^ +val_acc +(\d\.\d+)$", done.stdout, re.MULTILINE)  # the summary's line, not an epoch's
    assert reached, done.stdout
    assert float(reached[1]) > 0.95, done.stdout
    folder = re.search(r"Run folder: (.+)", done.stdout)
    assert folder, done.stdout
    assert Path(folder[1], "curves.png").stat().st_size > 5_000
    assert Path(folder[1], "records.jsonl").stat().st_size > 0


def test_without_scikit_learn_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None; from gpulayer_nb.cli import main; sys.exit(main(['demo']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "gpulayer-nb[demo]" in done.stderr
