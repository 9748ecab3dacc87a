"""What a cell needs reaches a rank, once; what changed reaches it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulayer_nb.errors import ShippingError

Ship = Callable[[str], Any]


def packed_names(notebook: Any, cell: str) -> set[str]:
    """Pack, pretend the ranks loaded it, and tell what was packed."""
    shipment = notebook.packer.pack_cell(cell)
    notebook.packer.commit(shipment)
    return set(shipment.names)


NET = """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x): return self.layer(x)
"""


# -- definitions


def test_classes_lambdas_and_closures_of_a_cell_run_on_the_rank(notebook: Any, ship: Ship) -> None:
    notebook.cell(NET)
    notebook.cell("""
from torch.utils.data import Dataset, DataLoader

def shifted(k):
    return lambda v: 2 * v + k

class Six(Dataset):
    def __init__(self, transform): self.transform = transform
    def __len__(self): return 6
    def __getitem__(self, i): return self.transform(i)

loader = DataLoader(Six(shifted(1)), batch_size=2, collate_fn=lambda items: sum(items))
forked = DataLoader(loader.dataset, batch_size=2, collate_fn=loader.collate_fn, num_workers=2, multiprocessing_context="fork")
model = Net()
""")
    assert ship("sum(loader), sum(forked), type(model) is Net, isinstance(loader.dataset, Six)") == (36, 36, True, True)


def test_recursion_between_functions_and_classes_works_both_ways(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
class Tree:
    def __init__(self, depth): self.children = [Leaf(), Tree(depth - 1)] if depth else []
    def size(self): return 1 + sum(c.size() for c in self.children)
class Leaf:
    def size(self): return 1 if even(2) else Tree(0).size()
""")
    assert ship("even(10), odd(7), Tree(3).size()") == (True, True, 7)


def test_a_helper_redefined_on_the_ranks_is_seen_by_shipped_functions(notebook: Any, ship: Ship) -> None:
    notebook.cell("def helper(): return 'notebook'\ndef outer(): return helper()")
    assert ship("outer()") == "notebook"
    assert ship("def helper(): return 'rank'\nouter()") == "rank"


def test_only_a_redefined_helper_is_shipped_again(notebook: Any, ship: Ship) -> None:
    notebook.cell("SCALE = 3\ndef helper(): return SCALE")
    notebook.cell("def outer(): return helper()")
    assert ship("outer()") == 3
    assert packed_names(notebook, "outer()") == set()
    notebook.cell("def helper(): return SCALE + 1")
    shipment = notebook.packer.pack_cell("outer()")
    assert shipment.names == ("helper",)
    assert ship("outer()") == 4


def test_inheritance_super_class_attributes_and_properties_survive(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
import abc
class Base(abc.ABC):
    registry = {}
    unit = "cm"
    def __init_subclass__(cls): Base.registry[cls.__name__] = 1
    @abc.abstractmethod
    def area(self): ...
    @classmethod
    def make(cls, *a): return cls(*a)
    @staticmethod
    def twice(x): return 2 * x
    @property
    def label(self): return f"{self.area()} {self.unit}"
class Square(Base):
    def __init__(self, side=3): super().__init__(); self.side = side
    def area(self): return self.side ** 2
class Cube(Square):
    def area(self): return 6 * super().area()
cube = Cube.make(2)
""")
    assert ship("cube.label, Square().label, cube.twice(4), Cube.__mro__[1] is Square, isinstance(cube, Base)") == (
        "24 cm", "9 cm", 8, True, True,
    )  # fmt: skip


def test_dataclasses_enums_named_tuples_and_slots_survive(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
from dataclasses import dataclass, field, replace
from enum import Enum, Flag
from collections import namedtuple
from typing import NamedTuple, Generic, TypeVar
T = TypeVar("T")
@dataclass(order=True)
class Config:
    width: int = 4
    tags: list = field(default_factory=list)
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
class Mode(Enum):
    TRAIN = "t"
    EVAL = "e"
    @property
    def upper(self): return self.value.upper()
class Bits(Flag):
    A = 1
    B = 2
Pair = namedtuple("P", "left right")
class Typed(NamedTuple):
    a: int
    b: str = "b"
class Box(Generic[T]):
    def __init__(self, v: T): self.v = v
config, point, mode, pair, typed, box = Config(8, ["x"]), Point(1), Mode.EVAL, Pair(1, 2), Typed(5), Box(3)
""")
    assert ship("""
assert config == Config(8, ["x"]) and Config() < config and replace(config, width=1).width == 1
assert point == Point(1, 2) and type(point) is Point
assert mode is Mode.EVAL and Mode("t") is Mode.TRAIN and mode.upper == "E" and (Bits.A | Bits.B).value == 3
assert type(pair) is Pair and pair.right == 2
assert type(typed) is Typed and typed == (5, "b")
assert box.v == 3 and type(box) is Box and Box[int]
True""")


def test_decorators_defaults_annotations_and_caches_survive(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
import functools
def logged(f):
    @functools.wraps(f)
    def wrapper(*a, **k):
        wrapper.calls += 1
        return f(*a, **k)
    wrapper.calls = 0
    return wrapper
BASE = 10
@logged
def add(a, b=BASE, *, c: int = 5) -> int:
    "adds"
    return a + b + c
@functools.lru_cache(maxsize=7)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
half = functools.partial(add, 1, c=0)
""")
    assert ship("add(1), add.calls, add.__doc__, add.__wrapped__.__annotations__['c'] is int") == (16, 1, "adds", True)
    assert ship("fib(30), fib.cache_info().maxsize, half(2)") == (832040, 7, 3)


def test_two_closures_share_their_variable_on_the_rank(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return up if n < 0 else n
    def get(): return n
    return up, get
up, get = counter()
""")
    assert ship("up(); up(); get()") == 2


def test_a_function_that_imports_a_submodule_finds_it(notebook: Any, ship: Ship, rank: Any) -> None:
    notebook.cell("import xml.etree.ElementTree\ndef tag(text): return xml.etree.ElementTree.fromstring(text).tag")
    rank.run("import sys\nfor name in [n for n in sys.modules if n.startswith('xml')]: del sys.modules[name]")
    assert ship("tag('<a/>'), xml.etree.ElementTree.fromstring('<b/>').tag") == ("a", "b")


def test_a_submodule_used_by_a_later_cell_is_imported_then(notebook: Any, ship: Ship) -> None:
    notebook.cell("import xml, xml.sax")
    assert ship("xml.__name__") == "xml"
    assert notebook.packer.pack_cell("xml.sax.make_parser").imports == ("xml.sax",)
    assert ship("xml.sax.__name__") == "xml.sax"
    assert notebook.packer.pack_cell("xml.sax.make_parser").is_empty


def test_a_shadowed_builtin_comes_along_and_others_do_not(notebook: Any, ship: Ship) -> None:
    notebook.cell("def sum(items): return 'mine'")
    assert set(notebook.packer.pack_cell("sum([1]), len([1])").names) == {"sum"}
    assert ship("sum([1])") == "mine"


def test_interpreter_names_and_reserved_names_are_never_shipped(notebook: Any) -> None:
    notebook.namespace.update(In=[], Out={}, _=1, _3=3, _i3="x", exit=1, rank=7, device="cpu", _mine=2)
    assert packed_names(notebook, "In, Out, _, _3, _i3, exit, rank, device, _mine, __name__") == {"_mine"}


def test_nested_and_redefined_classes_keep_their_identity(notebook: Any, ship: Ship) -> None:
    notebook.cell("class Outer:\n    class Inner:\n        def who(self): return 'old'\nold = Outer.Inner()")
    assert ship("type(old) is Outer.Inner") is True
    notebook.cell("class Outer:\n    class Inner:\n        def who(self): return 'new'")
    assert ship("type(old) is Outer.Inner, old.who(), Outer.Inner().who()") == (False, "old", "new")


def test_circular_references_survive(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
class Node: pass
a, b = Node(), Node()
a.other, b.other = b, a
loop = []; loop.append(loop)
class A: pass
class B(A): pass
A.child = B
def f(): return f
f.me = f
""")
    assert ship("a.other is b, b.other is a, loop[0] is loop, A.child is B, issubclass(B, A), f.me is f, f() is f") == (True,) * 7


# -- sharing


def test_model_and_optimizer_share_parameters_on_the_rank(notebook: Any, ship: Ship) -> None:
    notebook.cell(NET)
    notebook.cell("import torch\nmodel = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=1.0)")
    assert ship("""
before = model.layer.weight.detach().clone()
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
bool((before != model.layer.weight).all())""")


def test_an_optimizer_used_in_a_later_cell_still_drives_the_model(notebook: Any, ship: Ship) -> None:
    notebook.cell(NET)
    notebook.cell("import torch\nmodel = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=1.0)")
    ship("start = model.layer.weight.detach().clone(); None")
    ship("optimizer.zero_grad()")
    ship("model(torch.ones(1, 2)).sum().backward()")
    ship("optimizer.step()")
    assert ship("bool((start != model.layer.weight).all())")


def test_tied_weights_and_views_stay_tied(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
import torch, torch.nn as nn
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
        self.out.weight = self.embed.weight
tied = Tied()
base = torch.arange(6.)
view = base[2:4]
lists = [1]
holder = {"same": lists}
""")
    assert ship(
        "view[0] = 9; lists.append(2)\ntied.out.weight is tied.embed.weight, base[2].item(), holder['same'] is lists"
    ) == (True, 9.0, True)


def test_values_given_together_share_and_bring_their_definitions(notebook: Any, rank: Any) -> None:
    notebook.cell(NET)
    notebook.cell(
        "import torch\nm = Net()\no = torch.optim.SGD(m.parameters(), lr=1.0)\ndef loss(out): return out.sum() * K\nK = 2"
    )
    shipment = notebook.packer.pack_values({"model": notebook["m"], "optimizer": notebook["o"], "loss_fn": notebook["loss"]})
    assert set(shipment.names) == {"Net", "nn", "loss", "K"}
    rank.ask("values", shipment)
    shares = "optimizer.param_groups[0]['params'][0] is next(model.parameters())"
    assert rank.run(f"{shares}, loss_fn(torch.ones(2)).item(), type(model) is Net") == (
        True, 4.0, True,
    )  # fmt: skip
    notebook.packer.commit(shipment)
    assert notebook.packer.pack_values({"model": notebook["m"]}).names == ()


def test_seeded_generators_continue_the_notebooks_sequence(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
import torch, random, numpy as np
g = torch.Generator().manual_seed(7)
torch.rand(3, generator=g)
npg = np.random.default_rng(5); npg.random()
pyg = random.Random(3); pyg.random()
loader = torch.utils.data.DataLoader(range(8), batch_size=None, shuffle=True, generator=g)
""")
    there = ship("loader.generator is g, torch.rand(1, generator=g).item(), npg.random(), pyg.random()")
    notebook.cell("here = True, torch.rand(1, generator=g).item(), npg.random(), pyg.random()")
    assert there == notebook["here"]


def test_tensors_of_every_kind_arrive_equal_and_writable(notebook: Any, ship: Ship) -> None:
    notebook.cell("""
import torch, numpy as np
small, big = torch.arange(5), torch.arange(200_000, dtype=torch.float64)
empty, scalar, half = torch.empty(0, 3), torch.tensor(3), torch.ones(2, dtype=torch.bfloat16)
strided = torch.arange(6).view(2, 3).t()
leaf, result = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 2
sparse = torch.eye(3).to_sparse()
array, frozen = np.arange(100_000.), np.arange(3)
frozen.flags.writeable = False
zeros, also_zeros = np.zeros(100_000), np.zeros(100_000)
both = [zeros, also_zeros]
""")
    assert ship("""
big[0] = -1; array[0] = -1; both[0][0] = 1; small.resize_(50)
assert big.sum().item() == 199999 * 100000 - 1 and array[0] == -1 and array[5] == 5
assert both[1][0] == 0, "equal arrays became one memory"
assert empty.shape == (0, 3) and scalar.item() == 3 and half.dtype == torch.bfloat16
assert strided.tolist() == [[0, 3], [1, 4], [2, 5]]
assert leaf.requires_grad and result.tolist() == [2, 2] and sparse.to_dense().tolist() == torch.eye(3).tolist()
assert not frozen.flags.writeable
True""")


# -- what is not sent again


def test_an_unchanged_big_array_is_not_sent_again(notebook: Any) -> None:
    notebook.cell("import numpy as np\ndata = np.arange(1_000_000)\nother = 1")
    first = notebook.packer.pack_cell("data.sum() + other")
    assert first.blob_bytes == 8_000_000 and first.wire_bytes < 10_000
    notebook.packer.commit(first)
    again = notebook.packer.pack_cell("data.sum() + other")
    assert again.is_empty and again.wire_bytes == again.blob_bytes == 0
    notebook.cell("other = 2")
    assert notebook.packer.pack_cell("data.sum() + other").names == ("other",)
    notebook.cell("data[5] = 0")
    assert set(notebook.packer.pack_cell("data.sum() + other").names) == {"data", "other"}


def test_ranks_keep_what_they_changed_until_the_notebook_changes_it(notebook: Any, ship: Ship) -> None:
    notebook.cell("x = 1")
    assert ship("x += 10; x") == 11
    assert ship("x") == 11
    notebook.cell("x = 2")
    assert ship("x") == 2


def test_a_name_deleted_in_the_notebook_stays_on_the_ranks(notebook: Any, ship: Ship) -> None:
    notebook.cell("x = 1")
    assert ship("x") == 1
    notebook.cell("del x")
    assert ship("x") == 1


def test_what_was_not_loaded_is_sent_again(notebook: Any) -> None:
    notebook.cell("x = 1")
    notebook.packer.pack_cell("x")
    assert notebook.packer.pack_cell("x").names == ("x",)
    notebook.packer.commit(notebook.packer.pack_cell("x"))
    assert notebook.packer.pack_cell("x").names == ()
    notebook.packer.forget()
    assert notebook.packer.pack_cell("x").names == ("x",)


def test_weights_that_came_back_are_not_sent_again(notebook: Any, ship: Ship) -> None:
    notebook.cell(NET)
    notebook.cell("import torch\nmodel = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=1.0)")
    ship("model, optimizer, None; None")
    notebook.cell("with torch.no_grad(): model.layer.weight.fill_(5.)")
    notebook.packer.mark_synced("model")
    assert packed_names(notebook, "model(optimizer)") == set()
    notebook.cell("optimizer.param_groups[0]['lr'] = 0.5")
    assert packed_names(notebook, "model(optimizer)") == {"model", "optimizer"}


def test_a_name_the_ranks_made_themselves_stays_theirs(notebook: Any, ship: Ship, rank: Any) -> None:
    notebook.cell("import threading\nx = 1\nlock = threading.Lock()")
    rank.run("x = 5; lock = None")
    notebook.packer.mark_synced("x", "lock")
    assert ship("lock, x") == (None, 5)
    notebook.cell("x = 2")
    assert ship("x") == 2


def test_old_files_go_when_the_ranks_have_the_new(notebook: Any) -> None:
    notebook.cell("import numpy as np\ndata = np.zeros(100_000)")
    for value in (1, 2, 3):
        notebook.cell(f"data[0] = {value}")
        notebook.packer.commit(notebook.packer.pack_cell("data"))
    assert len(list(notebook.blobs.folder.iterdir())) == 1


# -- errors


def test_an_attribute_that_cannot_be_pickled_is_named(notebook: Any) -> None:
    notebook.cell("""
import threading
class Digits:
    def __init__(self): self.lock = threading.Lock()
    def __getitem__(self, i): return i
train_set = Digits()
""")
    with pytest.raises(ShippingError) as caught:
        notebook.packer.pack_cell("train_set[0]")
    assert str(caught.value) == (
        "train_set (Digits) cannot be sent to the ranks: its attribute lock is a _thread.lock. "
        "Next: make the lock in `__getitem__`, or make train_set inside the cell."
    )


def test_the_path_to_the_culprit_goes_through_containers_closures_and_users(notebook: Any) -> None:
    notebook.cell("""
class Holder: pass
holder = Holder()
holder.parts = [1, {"stream": (i for i in range(3))}]
def make(stream):
    return lambda: next(stream)
read = make(x for x in "ab")
def use(): return read()
""")
    with pytest.raises(ShippingError) as caught:
        notebook.packer.pack_cell("holder")
    assert "holder (Holder) cannot be sent to the ranks: its attribute parts[1]['stream'] is a generator." in str(caught.value)
    with pytest.raises(ShippingError) as caught:
        notebook.packer.pack_cell("use()")
    assert "read (function, used by use) cannot be sent to the ranks: its variable stream is a generator." in str(caught.value)


def test_a_value_that_is_itself_the_culprit_says_what_to_do(notebook: Any) -> None:
    notebook.cell("stream = iter(x for x in range(3))")
    with pytest.raises(ShippingError) as caught:
        notebook.packer.pack_cell("next(stream)")
    assert str(caught.value).startswith(
        "stream (generator) cannot be sent to the ranks: it cannot be pickled. Next: make a list of it, or "
    )


def test_a_class_that_refuses_to_be_pickled_gives_its_reason(notebook: Any) -> None:
    notebook.cell("class Client:\n    def __reduce__(self): raise RuntimeError('session is bound')\nclient = Client()")
    with pytest.raises(ShippingError, match=r"client \(Client\) .* \(RuntimeError: session is bound\)"):
        notebook.packer.pack_cell("client")


def test_a_name_that_may_not_be_needed_is_left_out_when_it_cannot_be_pickled(notebook: Any) -> None:
    notebook.cell("import threading\nstream = (i for i in range(3))\nn = 3")
    assert packed_names(notebook, "for i in range(n):\n    stream = iter([i])\nnext(stream)") == {"n"}
