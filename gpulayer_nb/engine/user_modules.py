"""The archive of the user's own modules on this rank: first on the import path, the last version only.

Runs in each rank's process. Owns what it has put on `sys.path`.
"""

from __future__ import annotations

import importlib
import sys


class UserModules:
    def __init__(self) -> None:
        self._archive = ""

    def use(self, archive: str) -> None:
        """Imports come from this archive from now on, "" for none; what was imported from another one is forgotten."""
        if archive == self._archive:
            return
        if self._archive:
            sys.path[:] = [entry for entry in sys.path if entry != self._archive]
            for name, module in list(sys.modules.items()):
                if (getattr(module, "__file__", None) or "").startswith(f"{self._archive}/"):
                    del sys.modules[name]
        self._archive = archive
        if archive:
            sys.path.insert(0, archive)
        importlib.invalidate_caches()
