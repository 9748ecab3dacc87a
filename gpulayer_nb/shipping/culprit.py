"""Why a value cannot be pickled: the innermost part that fails, and what the user can do.

Runs where values are packed, after a pickling has failed. Owns the search and the words. Must not know names that were sent.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType

from gpulayer_nb.errors import ShippingError

_PARTS_LIMIT = 10_000  # parts of one value that are tried
_DEPTH_LIMIT = 50


@dataclass(frozen=True)
class Culprit:
    """`path` leads from the value to the part, such as `.dataset.lock` or `[2]`; empty if the value itself is the culprit."""

    path: str
    part: object
    error: BaseException


def find_culprit(value: object, error: BaseException, attempt: Callable[[object], BaseException | None]) -> Culprit:
    """Follow the failing parts of a value inwards.

    Args:
        value: what failed.
        error: how it failed.
        attempt: pickles one part by itself; returns what was raised, or None.
    """
    culprit, seen = Culprit("", value, error), {id(value)}
    for _ in range(_DEPTH_LIMIT):
        for label, part in itertools.islice(_parts(culprit.part), _PARTS_LIMIT):
            if id(part) not in seen and (raised := attempt(part)) is not None:
                seen.add(id(part))
                culprit = Culprit(culprit.path + label, part, raised)
                break
        else:
            break
    return culprit


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a value is made of, with the words that lead from it to the part."""
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield f"[{_short(key)}]", item
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield f"[{i}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield "{…}", item
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f" variable {name}", cell.cell_contents
            except ValueError:  # not bound yet
                continue
        yield from ((f" default {i}", item) for i, item in enumerate(value.__defaults__ or ()))
        yield from ((f" default {name}", item) for name, item in (value.__kwdefaults__ or {}).items())
    elif isinstance(value, MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from (
            (label, item) for label, item in ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
        )
    elif isinstance(value, (staticmethod, classmethod)):
        yield ".__func__", value.__func__
    else:
        for name, item in _attributes(value).items():
            yield f".{name}", item


def _attributes(value: object) -> Mapping[str, object]:
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found.setdefault(name, getattr(value, name))
    return found


def cannot_be_sent(name: str, value: object, culprit: Culprit, used_by: str | None = None) -> ShippingError:
    """The paragraph for the user.

    Args:
        name: the variable.
        value: its value.
        culprit: the part that fails.
        used_by: the variable whose functions use this one, if the cell does not itself.
    """
    kind = type_name(value)
    whom = f"{name} ({kind}{f', used by {used_by}' if used_by else ''})"
    noun = noun_of(culprit.part)
    if culprit.path:
        part = type_name(culprit.part)
        where = f"its {_kind_of_path(culprit.path)}{culprit.path.strip('. ')} is {_article(part)} {part}"
    else:
        where = "it cannot be pickled"
    reason = f" ({type(culprit.error).__name__}: {culprit.error})" if noun is None else ""
    advice = [f"make {name} inside the cell"]
    if noun is not None and culprit.path and hasattr(type(value), "__getitem__"):
        advice.insert(0, f"make the {noun} in `__getitem__`")
    elif noun is not None and "iterator" in noun:
        advice.insert(0, "make a list of it")
    return ShippingError(f"{whom} cannot be sent to the ranks: {where}{reason}. Next: {', or '.join(advice)}.")


def type_name(value: object) -> str:
    """The type as the user would write it: `Digits`, `_thread.lock`."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"


def noun_of(part: object) -> str | None:
    """What everybody calls a thing that belongs to one process; None if it is nothing we know."""
    module, name = type(part).__module__, type(part).__qualname__.lower()
    if module in ("_thread", "threading", "multiprocessing.synchronize"):
        return "thread" if name == "thread" else "lock"
    if module in ("_io", "io", "tempfile", "gzip", "zipfile", "h5py._hl.files"):
        return "file"
    if module in ("socket", "_socket", "ssl"):
        return "socket"
    if module in ("sqlite3",) or "connection" in name:
        return "connection"
    if name in ("generator", "async_generator") or name.endswith(("iterator", "iter")):
        return "iterator"
    return None


def _kind_of_path(path: str) -> str:
    return "attribute " if path.startswith(".") else ("" if path.startswith(" ") else "item ")


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 40 else text[:37] + "..."
