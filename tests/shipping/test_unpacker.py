"""What a rank unpacks: tracebacks that show the notebook's cells, errors with a next step, results that go back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from gpulayer_nb.errors import ShippingError

Ship = Callable[[str], Any]


def test_tracebacks_of_shipped_functions_show_the_cell(notebook: Any, ship: Ship) -> None:
    notebook.cell("# a comment\ndef fail(x):\n    return 1 / x  # the line\n")
    text = ship("import traceback\ntry: fail(0)\nexcept ZeroDivisionError: text = traceback.format_exc()\ntext")
    assert 'ipykernel_1/1.py", line 3, in fail' in text and "return 1 / x  # the line" in text


def test_ipython_on_the_rank_shows_the_notebooks_cell_number(notebook: Any, ipython_rank: Any) -> None:
    class Compile:
        _filename_map = {"/tmp/ipykernel_1/1.py": 41}

    class Shell:
        compile = Compile()

    notebook.namespace["get_ipython"] = lambda: Shell()
    notebook.cell("def fail(x):\n    return 1 / x  # the line\n")
    shipment = notebook.packer.pack_cell("fail(0)")
    assert shipment.sources["/tmp/ipykernel_1/1.py"].execution_count == 41
    ipython_rank.unpack(shipment)
    text = re.sub(r"\x1b\[[0-9;]*m", "", ipython_rank.ask("run_cell", "fail(0)", 42))  # without colours
    assert "Cell In[41]" in text and "Cell In[42]" in text and "return 1 / x" in text


def test_a_module_the_rank_lacks_is_named_with_the_next_step(
    notebook: Any, rank: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def f(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    notebook.cell("import only_here\nfrom only_here import f")
    with pytest.raises(ShippingError, match=r"The ranks have no module only_here, which f needs\. Next: install it"):
        rank.unpack(notebook.packer.pack_cell("f()"))


def test_a_setstate_that_raises_names_the_variable(notebook: Any, rank: Any) -> None:
    notebook.cell(
        "class Odd:\n    def __init__(self): self.a = 1\n    def __setstate__(self, s): raise ValueError('not here')\nodd = Odd()"
    )
    with pytest.raises(
        ShippingError, match=r"odd arrived but cannot be put together again: ValueError: not here\. Next: make it inside the cell"
    ):
        rank.unpack(notebook.packer.pack_cell("odd"))


def bring(notebook: Any, rank: Any, *names: str) -> Any:
    return notebook.unpacker.unpack(rank.bring(*names), overwrite=False)


def test_an_instance_of_a_shipped_class_comes_back_as_the_notebooks_class(notebook: Any, rank: Any, ship: Ship) -> None:
    notebook.cell(
        "class Config:\n    def __init__(self, w): self.w = w\n    def double(self): return self.w * K\nK = 2\nconfig = Config(3)"
    )
    ship("config.w = 7; made = Config(1)")
    values = bring(notebook, rank, "config", "made").values
    assert type(values["config"]) is notebook["Config"] and type(values["made"]) is notebook["Config"]
    notebook.cell("K = 10")
    assert values["config"].double() == 70


def test_a_class_made_on_the_ranks_works_in_the_notebook(notebook: Any, rank: Any, ship: Ship) -> None:
    ship("""
import math
FACTOR = 2
def scaled(x): return math.sqrt(x) * FACTOR
class Made:
    def __init__(self): super().__init__()
    def run(self): return scaled(16)
big = bytearray(1_000_000)
def uses_big(): return len(big)
made = Made()
None""")
    back = bring(notebook, rank, "made", "uses_big")
    assert back.values["made"].run() == 8 and set(back.names) == {"math", "FACTOR", "scaled"}
    again = bring(notebook, rank, "made").values["made"]
    assert type(again) is type(back.values["made"])


def test_what_comes_back_never_replaces_the_notebooks_own_names(notebook: Any, rank: Any, ship: Ship) -> None:
    notebook.cell("FACTOR = 100")
    ship("FACTOR = 2\ndef scaled(x): return x * FACTOR\nNone")
    back = bring(notebook, rank, "scaled")
    assert back.names == () and notebook["FACTOR"] == 100 and back.values["scaled"](1) == 100


def test_a_class_redefined_on_the_ranks_comes_back_as_its_own(notebook: Any, rank: Any, ship: Ship) -> None:
    notebook.cell("class Net: version = 1")
    ship("Net.version")
    ship("class Net: version = 2\nnet = Net()\nNone")
    net = bring(notebook, rank, "net").values["net"]
    assert net.version == 2 and notebook["Net"].version == 1


def test_a_model_and_its_optimizer_come_back_sharing(notebook: Any, rank: Any, ship: Ship) -> None:
    ship("import torch\nmodel = torch.nn.Linear(2, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=1.0)\nNone")
    values = bring(notebook, rank, "model", "optimizer").values
    assert values["optimizer"].param_groups[0]["params"][0] is values["model"].weight
