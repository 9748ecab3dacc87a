"""The first notebook of the course in JupyterLab: as it is stored, and run by a student who presses "Run All Cells"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lab_page import CELLS, KERNEL_IDLE, MILLISECONDS, RUN_ALL, SHOW_CELL
from playwright.sync_api import Page

PICTURE_WIDTHS = "() => [...document.querySelectorAll('.jp-OutputArea-output img')].map(image => image.naturalWidth)"
ALL_RUN = f"() => ({CELLS})().every(cell => cell.cell_type !== 'code' || cell.execution_count)"
CLEAR_ALL = "async () => { await window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }"


def source(cell: dict[str, Any]) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def with_line(cells: list[dict[str, Any]], text: str) -> int:
    return next(i for i, cell in enumerate(cells) if cell["cell_type"] == "code" and text in source(cell))


@pytest.mark.browser
def test_the_first_notebook_of_the_course_runs_to_its_end_in_jupyterlab(lab: Any, page: Page, pictures: Path) -> None:
    page.goto(lab.url("01_ranks_and_world_size.ipynb"))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60 * MILLISECONDS)
    page.wait_for_function(KERNEL_IDLE, timeout=60 * MILLISECONDS)
    cells = page.evaluate(CELLS)
    tree = with_line(cells, "teach.rank_tree()")
    page.evaluate(SHOW_CELL, tree)
    page.wait_for_function(f"() => ({PICTURE_WIDTHS})().includes(1200)", timeout=20 * MILLISECONDS)  # as stored, not trusted yet
    page.get_by_text("This picture in words").first.click()
    page.screenshot(path=pictures / "course-stored.png")

    page.evaluate(CLEAR_ALL)
    page.evaluate(RUN_ALL)
    page.wait_for_function(ALL_RUN, timeout=120 * MILLISECONDS)
    cells = page.evaluate(CELLS)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code), "Run All stopped before the end"
    errors = [output["ename"] for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    assert errors == ["NameError"], "one cell breaks on purpose"
    exercise = with_line(cells, "check_rank_formula")
    assert "replace" in str(cells[exercise]["outputs"]).lower()
    for number in range(0, len(cells), 6):
        page.evaluate(SHOW_CELL, number)
        page.wait_for_timeout(0.7 * MILLISECONDS)  # the page is drawn
        page.screenshot(path=pictures / f"course-{number:02d}.png")
