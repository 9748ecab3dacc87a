"""A remote call by name: what the kernel asks an engine to run.

Made in the kernel, called on an engine. Owns nothing but the two names, so that neither side imports the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Call:
    """Calls `function` of `module` wherever it is unpickled and called."""

    module: str
    function: str

    def __call__(self, *args: Any) -> Any:
        return getattr(import_module(self.module), self.function)(*args)


RUN = Call("gpulayer_nb.engine.runtime", "run")
OPEN_STORE = Call("gpulayer_nb.engine.runtime", "open_store")
