"""What tests ask of a page of JupyterLab or Notebook 7 that shows a notebook."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

MILLISECONDS = 1000
APP = "(window.jupyterapp ?? window.jupyterlab)"
KERNEL_IDLE = f"() => {APP}?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
RUN_ALL = f"() => {{ {APP}.commands.execute('notebook:run-all-cells'); }}"  # resolves early: look at the cells for their end
CELLS = f"() => {APP}.shell.currentWidget.content.model.sharedModel.cells.map(cell => cell.toJSON())"
THEME = f"async name => {{ await {APP}.commands.execute('apputils:change-theme', {{theme: name}}); }}"
SHOW_CELL = """async number => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = number;
    await notebook.scrollToItem(number, 'start');
}"""
_VIOLATIONS = """async part => (await axe.run(part)).violations.map(
    found => [found.id, found.nodes.map(node => node.html + node.failureSummary)]
)"""


def violations(page: Page, selector: str) -> list[Any]:
    """What a screen reader or a keyboard would stumble over in a part of the page, as axe-core sees it."""
    page.add_script_tag(path=str(files("axe_playwright_python").joinpath("axe.min.js")))
    found: list[Any] = page.evaluate(_VIOLATIONS, selector)
    return found
