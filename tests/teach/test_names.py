"""The names of `gpulayer_nb.teach`, and what they cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpulayer_nb import teach


@pytest.mark.parametrize("name", dir(teach))
def test_every_name_can_be_had(name: str) -> None:
    assert callable(getattr(teach, name)) or name in ("DARK", "LIGHT")


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rank_three'"):
        _ = teach.rank_three


def test_the_course_costs_nothing_until_a_picture_is_drawn() -> None:
    code = (
        "import sys; from gpulayer_nb import teach; teach.check_rank_formula(lambda *case: 0); teach.RankLog;"
        "print([name for name in ('torch', 'matplotlib', 'numpy', 'IPython') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
