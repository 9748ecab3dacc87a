"""The names a cell uses, as lines of a script: imports, definitions, statements, data; each after what it needs.

Runs in the kernel. Owns the way from a value to text, and the refusal by name of what has none. Touches torch objects by their
attributes only.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from gpulayer_nb.errors import ShippingError
from gpulayer_nb.export.cell_history import CellHistory
from gpulayer_nb.export.saved_data import SavedData, literal
from gpulayer_nb.shipping.free_names import free_names
from gpulayer_nb.shipping.hidden_names import is_hidden

OUR_PACKAGE = "gpulayer_nb"


class Sources:
    """Collects what names need.

    Args:
        namespace: the notebook's.
        given: names that the script has anyway.

    Attributes:
        imports: import lines.
        lines: definitions and statements, in an order in which they run.
        needs_restore: some object is rebuilt from its class and attributes.
        modules: modules of the user's own, which have to lie beside the script.
    """

    def __init__(self, namespace: Mapping[str, Any], history: CellHistory, given: Iterable[str]) -> None:
        self._namespace, self._history, self._done = namespace, history, set(given)
        self.data = SavedData()
        self.imports: dict[str, None] = {}
        self.lines: list[str] = []
        self.needs_restore = False
        self.modules: dict[str, None] = {}
        self._names_by_id = {id(value): name for name, value in namespace.items() if not name.startswith("_")}
        self._path: list[str] = []  # the names we are in the middle of

    @property
    def names(self) -> frozenset[str]:
        """Those that the script has."""
        return frozenset(self._done)

    def need(self, code: str) -> None:
        """Adds all that a piece of code takes from the notebook.

        Raises:
            ShippingError: a name cannot be written down; says which, why, and what to do.
        """
        for name in sorted(free_names(code)):
            if is_hidden(name):
                _refuse_interpreters(name)
            elif name in self._namespace:
                self.add(name)

    def add(self, name: str) -> None:
        if name in self._done:
            return
        self._done.add(name)
        self._path.append(name)
        value = self._namespace[name]
        _refuse_ours(name, value)
        if isinstance(value, ModuleType):
            self._import_module(name, value)
        elif isinstance(value, (type, FunctionType)) or callable(getattr(value, "__wrapped__", None)):
            self._add_code(name, value)
        else:
            text = self._statement(name, value)
            self.lines.append(text)
        self._path.pop()

    def _import_module(self, name: str, module: ModuleType) -> None:
        plain = f"import {module.__name__}" + ("" if module.__name__ == name else f" as {name}")
        self.imports[self._history.import_of(name) or plain] = None
        self._note_module(module.__name__)

    def _add_code(self, name: str, value: Any) -> None:
        """A function or class: its text if the notebook wrote it, else its import."""
        home, own_name = getattr(value, "__module__", None), getattr(value, "__name__", name)
        if home == "__main__":
            text = self._history.definition(own_name)
            if text is None:
                text = self._constructed(name)  # `f = lambda x: …`
            elif own_name != name:
                text = f"{text}\n\n\n{name} = {own_name}"
            if text is None:
                raise _refused(name, value, "its text is in no cell")
            self.need(text)
            self.lines.append(text)
            return
        line = self._history.import_of(name) or _import_line(name, value)
        if line is None:
            raise _refused(name, value, f"it cannot be imported from {home}")
        self.imports[line] = None
        self._note_module(str(home))

    def _note_module(self, module: str) -> None:
        """Modules of the user's own are not installed where the script goes."""
        first = module.partition(".")[0]
        path = getattr(sys.modules.get(first), "__file__", None) or ""
        installed = (
            not path or "site-packages" in path or "dist-packages" in path or path.startswith((sys.prefix, sys.base_prefix))
        )
        if not installed:
            self.modules[first] = None

    def _statement(self, name: str, value: Any) -> str:
        """`name = …` for a value."""
        text = self.expression(name, value)
        if text is not None:
            return f"{name} = {text}"
        built = self._constructed(name, value)
        if built is None:
            raise _refused(name, value, "it cannot be written as text, nor saved in a file that loads without running code")
        self.need(built)
        state = _state_of(value)
        if state:
            saved = self.data.add(name, state)
            if saved is None:
                raise _refused(name, value, "its state cannot be saved in a file that loads without running code")
            built = f"{built}\n{name}.load_state_dict({saved})  # as it was in the notebook when this was exported"
        return built

    def expression(self, name: str, value: Any) -> str | None:
        """Text that gives the value; data under this name. None if there is none."""
        text = literal(value)
        if text is not None:
            if text.startswith("Path("):
                self.imports["from pathlib import Path"] = None
            return text
        saved = self.data.add(name, value)
        if saved is not None:
            return saved
        kind = type(value).__name__
        if kind == "TensorDataset" and type(value).__module__ == "torch.utils.data.dataset":
            parts = [self._part(f"{name}.{at}", tensor) for at, tensor in enumerate(value.tensors)]
            self.imports["from torch.utils.data import TensorDataset"] = None
            return None if None in parts else f"TensorDataset({', '.join(map(str, parts))})"
        if kind == "Subset" and type(value).__module__ == "torch.utils.data.dataset":
            whole, indices = self._part(f"{name}.dataset", value.dataset), self._part(f"{name}.indices", list(value.indices))
            self.imports["from torch.utils.data import Subset"] = None
            return None if whole is None or indices is None else f"Subset({whole}, {indices})"
        if type(value).__module__ == "__main__" and not hasattr(value, "state_dict") and hasattr(value, "__dict__"):
            return self._restored(name, value)
        return None

    def _restored(self, name: str, value: Any) -> str | None:
        """An object of a class of the notebook, from its attributes."""
        kind = type(value).__name__
        if self._namespace.get(kind) is not type(value) or _has_slots(type(value)):
            return None
        parts = {key: self._part(f"{name}.{key}", part) for key, part in vars(value).items()}
        if None in parts.values():
            return None
        self.add(kind)
        self.needs_restore = True
        return f"restored({kind}, {{{', '.join(f'{key!r}: {text}' for key, text in parts.items())}}})"

    def _part(self, name: str, value: Any) -> str | None:
        """A part of a value: by its own name where the notebook has it under one."""
        own = self._names_by_id.get(id(value))
        if own is not None and literal(value) is None and own not in self._path:
            self.add(own)
            return own
        return self.expression(name, value)

    def _constructed(self, name: str, value: Any = None) -> str | None:
        """The notebook's own `name = Kind(…)` or `name = lambda …`, if that is how the value was made."""
        found = self._history.assignment(name)
        if found is None:
            return None
        text, made = found
        if isinstance(made, ast.Lambda):
            return text
        if value is None or not isinstance(made, ast.Call):
            return None
        called = made.func.attr if isinstance(made.func, ast.Attribute) else getattr(made.func, "id", "")
        moved = called in ("to", "double", "float", "eval", "train", "requires_grad_")
        return text if called == type(value).__name__ or (moved and hasattr(value, "state_dict")) else None


def _has_slots(kind: type) -> bool:
    """Whether some of an object's attributes are not in its `__dict__`."""
    return any(vars(base).get("__slots__") for base in kind.__mro__)


def _state_of(value: Any) -> Any:
    """What a model has learnt; an optimizer or a schedule starts anew, as in the cell."""
    return value.state_dict() if hasattr(value, "load_state_dict") and hasattr(value, "parameters") else None


def _import_line(name: str, value: Any) -> str | None:
    home, own_name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if home is None or "." in own_name:
        return None
    try:
        found = getattr(import_module(home), own_name, None)
    except ImportError:
        return None
    return f"from {home} import {own_name}" + ("" if own_name == name else f" as {name}") if found is value else None


def _refuse_ours(name: str, value: Any) -> None:
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    homes = {str(kind.__module__).partition(".")[0] for kind in kinds} | {str(getattr(value, "__name__", "")).partition(".")[0]}
    if isinstance(value, FunctionType):
        homes.add(value.__module__.partition(".")[0])
    if OUR_PACKAGE in homes:
        raise ShippingError(
            f"`{name}` is a part of gpulayer_nb, and an exported script does without it. Nothing was written. "
            "Next: make the model a plain nn.Module with loss_fn and optimizer in a `%%gpulayer` cell, or run a script that uses "
            "gpulayer_nb with `%gpulayer launch`."
        )


def _refuse_interpreters(name: str) -> None:
    """Names of the interpreter: a script has Python's, not IPython's."""
    if (hasattr(builtins, name) and name not in ("display", "get_ipython")) or name.startswith("__"):
        return
    raise ShippingError(
        f"`{name}` belongs to the notebook, a script has none. Nothing was written. "
        "Next: take it out of the cell and of the functions it calls, run the cell, and export again."
    )


def _refused(name: str, value: Any, why: str) -> ShippingError:
    kind = type(value)
    return ShippingError(
        f"`{name}` ({kind.__module__}.{kind.__qualname__}), which the cell uses, cannot go into a script: {why}. "
        "Nothing was written. Next: make it inside the training cell, or in a function that the cell calls, run the cell, and "
        "export again."
    )
