"""From a notebook's values to lines of a script."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

from gpulayer_nb.errors import ShippingError, UsageError
from gpulayer_nb.export.cell_body import cell_body
from gpulayer_nb.export.cell_history import CellHistory
from gpulayer_nb.export.script import GIVEN
from gpulayer_nb.export.sources import Sources


class Notebook:
    """Cells run in a namespace of their own, as in a kernel."""

    def __init__(self, *cells: str) -> None:
        self.cells = list(cells)
        self.namespace: dict = {"__name__": "__main__"}
        for cell in cells:
            exec(compile(cell, "<cell>", "exec"), self.namespace)

    def sources(self, code: str) -> Sources:
        made = Sources(self.namespace, CellHistory(self.cells), GIVEN)
        made.need(code)
        return made


def rebuilt(sources: Sources) -> dict:
    """What the script's lines give."""
    from gpulayer_nb.export.loop_text import RESTORED

    text = "\n".join([*sources.imports, RESTORED, *sources.lines])
    found = {"torch": torch, "notebook_data": sources.data.values, "__name__": "script"}
    exec(text, found)
    return found


def test_imports_are_the_users_own_lines():
    made = Notebook(
        "import numpy as np, math", "from torch.utils.data import DataLoader as Loader", "import torch.nn.functional as F"
    ).sources("Loader, np, math, F")
    assert sorted(made.imports) == [
        "from torch.utils.data import DataLoader as Loader", "import math", "import numpy as np",
        "import torch.nn.functional as F",
    ]  # fmt: skip


def test_definitions_come_after_what_they_need_and_the_newest_counts():
    made = Notebook(
        "def scaled(x):\n    return x\n",
        "FACTOR = 3\ndef scaled(x):\n    return helper(x) * FACTOR\n",
        "def helper(x):\n    return x + 1\n",
    ).sources("y = scaled(1)")
    assert made.lines == ["FACTOR = 3", "def helper(x):\n    return x + 1", "def scaled(x):\n    return helper(x) * FACTOR"]
    assert rebuilt(made)["scaled"](1) == 6


def test_values_come_back_as_they_are():
    book = Notebook(
        "import torch, numpy as np\nfrom torch.utils.data import TensorDataset, Subset\nfrom pathlib import Path\n"
        "x = torch.randn(8, 2); y = np.arange(8)\npairs = TensorDataset(x, torch.tensor(y))\npart = Subset(pairs, [1, 3])\n"
        "place = Path('data'); kind = torch.float16; sizes = {'a': (1, 2.5), 'b': [None, 'x']}\nlong = list(range(1000))\n"
    )
    found = rebuilt(book.sources("part, place, kind, sizes, long, y"))
    own = book.namespace
    assert isinstance(found["part"], Subset) and isinstance(found["part"].dataset, TensorDataset)
    assert torch.equal(found["part"][1][0], own["part"][1][0])
    assert (found["y"] == own["y"]).all() and found["y"].dtype == own["y"].dtype
    assert [found[name] for name in ("place", "kind", "sizes", "long")] == [
        own[name] for name in ("place", "kind", "sizes", "long")
    ]


def test_an_object_of_the_notebooks_class_is_rebuilt_from_its_attributes():
    book = Notebook(
        "import torch\nclass Data:\n    def __init__(self, n):\n        self.x = torch.randn(n); self.name = 'made once'\n"
        "data_set = Data(5)\n"
    )
    made = book.sources("data_set")
    assert made.needs_restore
    found = rebuilt(made)["data_set"]
    assert torch.equal(found.x, book.namespace["data_set"].x) and found.name == "made once"


def test_a_model_of_the_notebook_keeps_its_weights_and_loses_no_part():
    book = Notebook(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.line = nn.Linear(2, width)\n\nmodel = Net(3)\nloss = nn.MSELoss()\n"
    )
    found = rebuilt(book.sources("model, loss"))
    assert torch.equal(found["model"].line.weight, book.namespace["model"].line.weight)
    assert isinstance(found["loss"], nn.MSELoss)


@pytest.mark.parametrize(
    ("cell", "code", "name"),
    [
        ("import threading\nlock = threading.Lock()", "lock", "`lock` (_thread.lock)"),
        ("import sqlite3\nbase = sqlite3.connect(':memory:')", "base", "`base` (sqlite3.Connection)"),
        ("import threading\nlock = threading.Lock()\ndef locked():\n    return lock", "locked()", "`lock`"),
        ("class Data: pass\ndata_set, = [Data()]; data_set.file = open('/dev/null')", "data_set", "`data_set`"),
    ],
)  # fmt: skip
def test_what_has_no_words_is_refused_by_name_with_what_to_do(cell, code, name):
    with pytest.raises(ShippingError) as error:
        Notebook(cell).sources(code)
    assert name in str(error.value) and "Next: make it inside the training cell" in str(error.value)


def test_parts_of_our_own_package_are_refused():
    book = Notebook("import gpulayer_nb as glt\nclass Net(glt.Module):\n    pass\n")
    for code in ("glt.Trainer", "Net()"):
        with pytest.raises(ShippingError, match="a part of gpulayer_nb"):
            book.sources(code)


def test_names_of_the_interpreter_are_pythons_or_refused():
    assert Notebook("def opened(path):\n    return open(path), __name__, print").sources("opened").lines
    for code in ("display(x)", "get_ipython().run_line_magic('time', '')", "_3 + 1"):
        with pytest.raises(ShippingError, match="belongs to the notebook, a script has none"):
            Notebook("x = 1").sources(code)


def test_magics_are_left_out_of_a_cell_unless_it_needs_their_result():
    assert cell_body("x = 1\n", "x = 1\n") == "x = 1"
    python = "x = 1\nget_ipython().run_line_magic('time', 'f()')\ny = 2\n"
    assert (
        cell_body("x = 1\n%time f()\ny = 2\n", python) == "x = 1\n# left out: get_ipython().run_line_magic('time', 'f()')\ny = 2"
    )
    with pytest.raises(UsageError, match="Line 1 of the cell uses the result"):
        cell_body("files = !ls\n", "files = get_ipython().getoutput('ls')\n")


def test_modules_of_the_users_own_are_named(tmp_path, monkeypatch):
    (tmp_path / "own_layers.py").write_text("class Layer: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Notebook("from own_layers import Layer").sources("Layer()")
    assert list(made.modules) == ["own_layers"] and list(made.imports) == ["from own_layers import Layer"]
