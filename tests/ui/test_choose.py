"""Which view a run gets, and what that costs before there is one."""

import subprocess
import sys

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.ui.choose import choose_view
from gpulayer_nb.ui.text_view import TextView


def test_outside_a_kernel_a_run_is_shown_as_text():
    assert isinstance(choose_view(RunHistory()), TextView)


def test_choosing_text_imports_nothing_heavy():
    source = (
        "import sys\nfrom gpulayer_nb.records.history import RunHistory\nfrom gpulayer_nb.ui.choose import choose_view\n"
        "import gpulayer_nb.ui.ranks_view\nchoose_view(RunHistory())\n"
        "print([m for m in ('torch', 'matplotlib', 'ipywidgets', 'anywidget', 'IPython', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_in_a_kernel_the_page_draws_the_run(kernel):
    cell = kernel.run("type(choose_view(RunHistory())).__name__")
    assert cell.outputs[0].data["text/plain"] == "'CanvasView'"


def test_where_anywidget_is_missing_the_kernel_draws(kernel):
    cell = kernel.run(
        "import sys\nkept = {n: sys.modules.pop(n) for n in list(sys.modules) if n.split('.')[0] == 'anywidget'}\n"
        "sys.modules['anywidget'] = None\n"
        "try:\n    view = choose_view(RunHistory())\n"
        "finally:\n    del sys.modules['anywidget']; sys.modules.update(kept)\n"
        "type(view).__name__"
    )
    assert cell.outputs[0].data["text/plain"] == "'RunView'"
