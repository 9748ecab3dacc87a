"""The quickstart, run from top to bottom in JupyterLab by somebody who presses "Run All Cells"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lab_page import CELLS, KERNEL_IDLE, MILLISECONDS, SHOW_CELL
from playwright.sync_api import Page

LIVE_VIEW_IN_EPOCH_5_OR_LATER = """() => [...document.querySelectorAll('.jp-OutputArea-output')].some(
    output => /epoch\\s+([5-9]|10)\\//.test(output.innerText))"""
CELL_IS_DONE = """number => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
    return cells[number].execution_count !== null;
}"""


@pytest.mark.browser
def test_the_quickstart_runs_in_jupyterlab_and_ends_with_its_figures(lab: Any, page: Page, pictures: Path) -> None:
    page.goto(lab.url("00_quickstart.ipynb"))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60 * MILLISECONDS)
    page.wait_for_function(KERNEL_IDLE, timeout=60 * MILLISECONDS)
    cells = page.evaluate(CELLS)
    training = next(i for i, cell in enumerate(cells) if source(cell).startswith("%%gpulayer"))
    page.evaluate("async () => { await window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); }")
    page.evaluate("() => { window.finished = window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.evaluate(SHOW_CELL, training)
    page.wait_for_function(LIVE_VIEW_IN_EPOCH_5_OR_LATER, timeout=90 * MILLISECONDS)
    assert page.evaluate(CELLS)[training]["execution_count"] is None, "the view came only after the cell had ended"
    page.screenshot(path=pictures / "quickstart-running.png")
    page.wait_for_function(CELL_IS_DONE, arg=len(cells) - 1, timeout=120 * MILLISECONDS)
    page.wait_for_function(KERNEL_IDLE, timeout=10 * MILLISECONDS)
    cells = page.evaluate(CELLS)
    for number in (training, len(cells) - 3):
        page.evaluate(SHOW_CELL, number)
        page.wait_for_timeout(1 * MILLISECONDS)  # the page is drawn
        page.screenshot(path=pictures / f"quickstart-cell-{number}.png")

    errors = [out["evalue"] for cell in cells for out in cell.get("outputs", []) if out["output_type"] == "error"]
    assert not errors, errors
    assert "image/png" in kinds(cells[training]), f"the training cell keeps no still picture: {kinds(cells[training])}"
    checked = next(cell for cell in cells if source(cell).startswith("# NBVAL_CHECK_OUTPUT"))
    assert "above 95 %: True" in "".join(out.get("text", "") for out in checked["outputs"]), checked["outputs"]
    plot = next(cell for cell in cells if source(cell).strip() == "run.plot()")
    assert "image/png" in kinds(plot), f"run.plot() shows no figure: {kinds(plot)}"


def source(cell: dict[str, Any]) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def kinds(cell: dict[str, Any]) -> set[str]:
    """The MIME types of a cell's outputs."""
    return {kind for out in cell["outputs"] for kind in out.get("data", {})}
