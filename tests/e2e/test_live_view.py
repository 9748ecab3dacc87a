"""The live view in a real page: it moves, it stops the run, it survives a reload and what is saved is readable tomorrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab_page import CELLS, KERNEL_IDLE, MILLISECONDS, RUN_ALL, THEME, violations
from playwright.sync_api import Page

PREPARE = """%load_ext gpulayer_nb
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 6400
    def __getitem__(self, i):
        time.sleep(0.0015)
        x = torch.randn(4, generator=torch.Generator().manual_seed(i))
        return x, x.sum(0, keepdim=True)
"""
TRAIN = """%%gpulayer --devices 2 --epochs {epochs}
model = nn.Linear(4, 1)
train_loader = DataLoader(Slow(), batch_size=16)
val_loader = DataLoader([Slow()[i] for i in range(32)], batch_size=16)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
print("hello from the ranks")
"""
KERNEL_STATUS = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
KERNEL_BUSY = f"() => ({KERNEL_STATUS})() === 'busy'"
LOOKED_AT = """shown => {
    Object.defineProperty(document, 'hidden', {configurable: true, get: () => !shown});
    document.dispatchEvent(new Event('visibilitychange'));
}"""
SAVE = "async () => { await window.jupyterapp.shell.currentWidget.context.save(); }"
STEP = """() => {
    const found = document.querySelector('.gpl .at')?.innerText.match(/step ([\\d\\u202f]+)/);
    return found ? Number(found[1].replace(/\\u202f/g, '')) : 0;
}"""
BEYOND = f"step => ({STEP})() > step"
PIXELS = """() => {
    const canvas = document.querySelector('.gpl canvas');
    const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return bytes.filter((value, at) => at % 4 === 3 && value > 0).length;
}"""
DONE = "number => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells[number].execution_count !== null"
STATE_OF_RUN = (
    "import gpulayer_nb as glt; run = glt.runs[-1]; print(run.state, run.model is model, model.weight.mean().item() > 0.5)"
)
ASK = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    for (let tries = 0; tries < 20; tries++) {  // right after an error the kernel still turns requests down
        const future = kernel.requestExecute({code, stop_on_error: false});
        let text = '';
        future.onIOPub = message => { text += message.content.text ?? message.content.evalue ?? ''; };
        const reply = await future.done;
        if (reply.content.status !== 'aborted') return text.trim();
        await new Promise(done => setTimeout(done, 100));
    }
}"""
AT_AN_EARLY_STEP = "() => /^at step \\d{1,2} /.test(document.querySelector('.gpl .at').innerText)"
STOPPING = """() => !document.querySelector('.gpl')
    || /topping|stop after the step/.test(document.querySelector('.gpl').innerText)"""
GROUND = "() => getComputedStyle(document.querySelector('.gpl')).backgroundColor"


def notebook(folder: Path, *cells: str) -> str:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, folder / "live.ipynb")
    return "live.ipynb"


def classic(lab: Any, name: str) -> str:
    """The notebook's address in Notebook 7."""
    return f"{lab.address}/notebooks/{name}?token={lab.token}"


def opened(lab: Any, page: Page, *cells: str) -> None:
    page.goto(lab.url(notebook(lab.folder, PREPARE, *cells)))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60 * MILLISECONDS)
    page.wait_for_function(KERNEL_IDLE, timeout=60 * MILLISECONDS)


def running(page: Page, step: int = 40) -> None:
    page.evaluate(RUN_ALL)
    page.wait_for_function(BEYOND, arg=step, timeout=60 * MILLISECONDS)


def stop(page: Page) -> None:
    page.locator(".gpl-stop").click()
    page.wait_for_function(KERNEL_IDLE, timeout=30 * MILLISECONDS)


@pytest.mark.browser
def test_the_curves_move_and_the_stop_button_stops_the_run_with_its_weights_kept(lab: Any, page: Page, pictures: Path) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    opened(lab, page, TRAIN.format(epochs=500))
    running(page)
    before, step = page.evaluate(PIXELS), page.evaluate(STEP)
    page.wait_for_function(BEYOND, arg=step + 100, timeout=30 * MILLISECONDS)
    assert page.evaluate(PIXELS) != before, "the picture of the curves has not changed"
    page.locator(".gpl canvas").hover(position={"x": 100, "y": 80})
    page.wait_for_function("() => document.querySelector('.gpl .at').innerText.startsWith('at step')", timeout=5 * MILLISECONDS)
    page.screenshot(path=pictures / "live-light.png")
    page.locator(".gpl-stop").click()
    page.wait_for_function(STOPPING)
    page.screenshot(path=pictures / "live-stopping.png")
    page.wait_for_function(KERNEL_IDLE, timeout=30 * MILLISECONDS)
    assert page.evaluate(ASK, STATE_OF_RUN) == "stopped True True"
    kept = [out["data"] for out in page.evaluate(CELLS)[1]["outputs"] if "text/html" in out.get("data", {})]
    assert len(kept) == 1 and "stopped" in kept[0]["text/html"] and "image/png" in kept[0], page.evaluate(CELLS)[1]["outputs"]
    page.wait_for_timeout(500)  # the page is drawn
    page.screenshot(path=pictures / "stopped-still.png")
    assert not problems, problems


@pytest.mark.browser
def test_a_page_that_is_loaded_again_goes_on_without_a_gap(lab: Any, page: Page, pictures: Path) -> None:
    opened(lab, page, TRAIN.format(epochs=500))
    running(page, 150)
    page.evaluate(SAVE)
    page.goto(lab.url("live.ipynb"))
    page.wait_for_function(BEYOND, arg=160, timeout=60 * MILLISECONDS)
    assert page.evaluate(PIXELS) > 0
    page.locator(".gpl canvas").hover(position={"x": 60, "y": 80})
    page.wait_for_function(AT_AN_EARLY_STEP, timeout=5 * MILLISECONDS)
    value = page.locator(".gpl-key output").first.inner_text()
    assert float(value) > 0.2, f"step 1 to 99 of the time before the reload reads {value}"
    step = page.evaluate(STEP)
    page.mouse.move(1, 1)
    page.wait_for_function(BEYOND, arg=step + 50, timeout=30 * MILLISECONDS)
    page.screenshot(path=pictures / "live-reloaded.png")
    page.locator(".gpl-stop").click()
    page.wait_for_function("() => /Stopped/.test(document.querySelector('.gpl')?.innerText ?? '')", timeout=30 * MILLISECONDS)
    page.screenshot(path=pictures / "live-reloaded-stopped.png")


@pytest.mark.browser
def test_a_saved_notebook_shows_picture_and_table_after_the_server_was_closed(start_lab: Any, page: Page, pictures: Path) -> None:
    with start_lab() as lab:
        opened(lab, page, TRAIN.format(epochs=1))
        running(page)
        page.wait_for_function(DONE, arg=1, timeout=60 * MILLISECONDS)
        page.evaluate(SAVE)
        page.goto("about:blank")
    path = lab.folder / "live.ipynb"
    saved = nbformat.read(path, 4)
    assert "widgets" not in saved.metadata or len(str(saved.metadata["widgets"])) < 5_000
    assert path.stat().st_size < 1_000_000
    for cell in saved.cells:
        cell.source = ""
    saved.metadata["kernelspec"] = {"name": "not-here", "display_name": "not here", "language": "python"}
    nbformat.write(saved, lab.folder / "tomorrow.ipynb")
    with start_lab() as lab:
        for name, url in (("lab", lab.url("tomorrow.ipynb")), ("notebook-7", classic(lab, "tomorrow.ipynb"))):
            page.goto(url)
            picture = page.locator(".jp-OutputArea-output img[alt^='curves up to step 200']")
            picture.wait_for(timeout=30 * MILLISECONDS)
            assert picture.evaluate("image => image.complete && image.naturalWidth > 900")
            assert page.locator(".jp-OutputArea-output table").first.is_visible()
            assert "model not found" not in page.content()
            page.screenshot(path=pictures / f"reopened-{name}.png")


@pytest.mark.browser
def test_a_page_that_is_hidden_costs_nothing_and_is_whole_again_when_it_is_looked_at(lab: Any, page: Page) -> None:
    received: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
    opened(lab, page, TRAIN.format(epochs=500))
    running(page, 60)
    page.wait_for_function(KERNEL_BUSY, timeout=10 * MILLISECONDS)

    def frames(milliseconds: int) -> tuple[int, int]:
        del received[:]
        page.wait_for_timeout(milliseconds)
        return len(received), sum(received)

    shown, shown_bytes = frames(4 * MILLISECONDS)
    assert shown_bytes / shown < 10_000
    assert 4 <= shown <= 4 * 8, f"{shown} frames in 4 s"
    assert page.evaluate(KERNEL_STATUS) == "busy"
    page.evaluate(LOOKED_AT, False)
    page.wait_for_timeout(1 * MILLISECONDS)
    hidden, hidden_bytes = frames(4 * MILLISECONDS)
    assert hidden_bytes < shown_bytes / 5, f"{hidden} frames, {hidden_bytes} bytes; before {shown}, {shown_bytes}"
    step = page.evaluate(STEP)
    page.evaluate(LOOKED_AT, True)
    page.wait_for_function(BEYOND, arg=step + 100, timeout=10 * MILLISECONDS)
    canvas = page.locator(".gpl canvas")
    canvas.hover(position={"x": 60, "y": 80})
    page.wait_for_function("() => document.querySelector('.gpl .at').innerText.startsWith('at step')", timeout=5 * MILLISECONDS)
    stop(page)


@pytest.mark.browser
def test_a_dark_theme_redraws_everything_and_controls_answer(lab: Any, page: Page, pictures: Path) -> None:
    opened(lab, page, TRAIN.format(epochs=500))
    running(page, 250)
    page.evaluate(THEME, "JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() === 'rgb(17, 17, 17)'", timeout=15 * MILLISECONDS)
    page.get_by_role("button", name="log", exact=True).click()
    page.get_by_label("smoothing").fill("5")
    assert page.locator(".gpl-tools output").inner_text() == "101 steps"
    canvas = page.locator(".gpl canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 100, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, box["y"] + 80, steps=4)
    page.mouse.up()
    page.wait_for_function("() => / · steps /.test(document.querySelector('.gpl .at').innerText)", timeout=5 * MILLISECONDS)
    page.screenshot(path=pictures / "live-dark-zoomed.png")
    page.get_by_role("button", name="show all steps").click()
    page.get_by_label("search in the output").fill("no such line")
    page.wait_for_function("() => document.querySelector('.gpl-find [role=status]').innerText === '0 lines'")
    page.get_by_label("search in the output").fill("")
    page.wait_for_timeout(500)  # the page is drawn
    page.screenshot(path=pictures / "live-dark.png")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate(THEME, theme)
        page.wait_for_timeout(1000)  # the theme's style sheet is in
        found = violations(page, ".gpl")
        assert not found, f"{theme}: {found}"
    stop(page)


@pytest.mark.browser
def test_notebook_7_shows_the_same_view_and_stops_it(lab: Any, page: Page, pictures: Path) -> None:
    pytest.importorskip("notebook", reason="Notebook 7 is not installed")
    name = notebook(lab.folder, PREPARE, TRAIN.format(epochs=500))
    page.goto(classic(lab, name))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60 * MILLISECONDS)
    page.wait_for_function(KERNEL_IDLE, timeout=60 * MILLISECONDS)
    running(page, 60)
    page.screenshot(path=pictures / "live-notebook-7.png")
    page.locator(".gpl-stop").click()
    still = page.locator(".jp-OutputArea-output img[alt^='curves up to step']")
    still.wait_for(timeout=30 * MILLISECONDS)
    page.screenshot(path=pictures / "stopped-notebook-7.png")


@pytest.mark.browser
def test_a_second_press_does_not_wait_for_the_step(lab: Any, page: Page) -> None:
    stuck = PREPARE.replace("time.sleep(0.0015)", "time.sleep(0.0015 if i < 1280 else 100)")
    page.goto(lab.url(notebook(lab.folder, stuck, TRAIN.format(epochs=1))))
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60 * MILLISECONDS)
    page.wait_for_function(KERNEL_IDLE, timeout=60 * MILLISECONDS)
    running(page, 30)
    page.wait_for_timeout(2 * MILLISECONDS)  # every rank is in a step that takes minutes
    page.locator(".gpl-stop").click()
    page.wait_for_function("() => document.querySelector('.gpl-stop').innerText.includes('Stop now')", timeout=5 * MILLISECONDS)
    page.wait_for_timeout(1 * MILLISECONDS)
    assert page.locator(".gpl-stop").is_visible(), "the first press asks only"
    page.locator(".gpl-stop").click()
    page.locator(".jp-OutputArea-output img[alt^='curves up to step']").wait_for(timeout=20 * MILLISECONDS)
    assert page.evaluate(ASK, "import gpulayer_nb as glt; print(glt.runs[-1].state)") == "stopped"
