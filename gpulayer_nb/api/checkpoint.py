"""A checkpoint of a run: a path, and a way to get it from the machine where rank 0 wrote it. Lives in the kernel."""

from __future__ import annotations

from pathlib import Path

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.link.fetching import FarFolder


class Checkpoint(type(Path())):  # type: ignore[misc]  # Path itself cannot be subclassed before Python 3.12
    """The file's path on the machine of rank 0; here it can be used as any path if that is this machine.

    Attributes:
        worker: name of the worker that has the file; None if it is here.
    """

    worker: str | None = None
    _far: FarFolder | None = None
    _here: Path | None = None

    @classmethod
    def at(cls, path: Path, far: FarFolder | None, here: Path) -> Checkpoint:
        """A checkpoint that `far` has, whose copy is to be in the folder `here`."""
        made: Checkpoint = cls(path)
        made._far, made._here = far, here
        made.worker = far.name if far is not None else None
        return made

    def fetch(self) -> Path:
        """A copy of it in the run's folder here, brought now; its own path if it is on this machine.

        Raises:
            ClusterError: the machine that has it cannot be asked.
        """
        if self._far is None or self._here is None:
            if not self.exists():
                raise ClusterError(f"There is no checkpoint {self} any more.")
            return Path(self)
        copy = Path(self._here, self.name)
        self._far.copy(Path(self), copy)
        return copy
