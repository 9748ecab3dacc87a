"""The table of measurements: what is measured again takes the place of what was, of the same day only."""

import importlib.util
from pathlib import Path

import pytest

OLD = """Measured on 2026-01-01: 2 cores.

| benchmark | contender | median |
|---|---|---|
| `a` | peer | 1 |
| `a` | ours | 2 |
| `b` | peer | 3 |

| goal | against | asked | measured |
|---|---|---|---|
| `a`: ours | peer | ≥ 1 | 2 |
| `a`: ours | another | ≥ 2 | 7 |"""
NEW = """Measured on 2026-01-01: 2 cores.

| benchmark | contender | median |
|---|---|---|
| `a` | peer | 10 |
| `a` | ours | 30 |
| `c` | ours | 40 |

| goal | against | asked | measured |
|---|---|---|---|
| `a`: ours | peer | ≥ 1 | 3 |"""


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("table", Path(__file__).parents[1] / "benchmarks" / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_that_were_measured_again_are_replaced_and_others_stay(table):
    assert table.merged(OLD, NEW) == (
        OLD.replace("| peer | 1 |", "| peer | 10 |").replace("| ours | 2 |", "| ours | 30 |")
        .replace("| `b` | peer | 3 |", "| `b` | peer | 3 |\n| `c` | ours | 40 |").replace("≥ 1 | 2 |", "≥ 1 | 3 |")
    )  # fmt: skip


def test_rows_of_another_day_do_not_stay_beside_new_ones(table):
    with pytest.raises(SystemExit, match="2 rows of the document were not measured now"):
        table.merged(OLD, NEW.replace("01-01", "01-02"))


def test_a_table_that_is_measured_as_a_whole_takes_the_place_of_any(table):
    whole = OLD.replace("01-01", "01-02")
    assert table.merged(OLD, whole) == whole


def test_only_what_stands_between_the_marks_is_written(table, tmp_path):
    document = tmp_path / "numbers.md"
    document.write_text(f"# Numbers\n{table.BEGIN}\n{OLD}\n{table.END}\nafter\n")
    table.update(document, NEW + "\n")
    assert document.read_text() == f"# Numbers\n{table.BEGIN}\n{table.merged(OLD, NEW)}\n{table.END}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(SystemExit, match="measured: begin"):
        table.update(document, NEW)
