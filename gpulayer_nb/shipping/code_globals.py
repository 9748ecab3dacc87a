"""Which global names and submodules a piece of compiled code may ask for.

Runs in the kernel and on ranks. Owns the reading of code objects. Must not know namespaces or pickling.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, ModuleType

# LOAD_NAME occurs in class bodies; a name the body has not bound comes from the globals. 3.12 adds the two _OR_GLOBALS.
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """Names that `code`, or code nested in it, loads from the globals: each once, in the order of the code."""
    names = dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname in _LOADS)
    for nested in nested_codes(code):
        names.update(dict.fromkeys(global_names(nested)))
    return tuple(names)


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code of the functions and classes written directly inside `code`."""
    return (const for const in code.co_consts if isinstance(const, CodeType))


@lru_cache(maxsize=4096)
def attribute_names(code: CodeType) -> frozenset[str]:
    """Every name that `code`, or code nested in it, may use as an attribute."""
    return frozenset(code.co_names).union(*map(attribute_names, nested_codes(code)))


def imported_submodules(values: Iterable[object], attributes: frozenset[str]) -> set[str]:
    """Submodules imported here that code with these `attributes` can reach from the modules among `values`.

    `import xml.etree.ElementTree` binds only `xml`; code that says `xml.etree.ElementTree` needs the submodules imported too.
    """
    found: set[str] = set()
    packages = [value.__name__ for value in values if isinstance(value, ModuleType)]
    while packages:
        package = packages.pop()
        for attribute in attributes:
            name = f"{package}.{attribute}"
            if name in sys.modules and name not in found:
                found.add(name)
                packages.append(name)
    return found
