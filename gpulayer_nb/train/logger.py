"""What a logger is: three methods that global rank 0 calls with numbers that all ranks have agreed on.

Runs in a rank. Anything with these methods will do, so loggers written for Lightning work too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gpulayer_nb.errors import UsageError


@runtime_checkable
class Logger(Protocol):
    """`log_metrics` is called once per optimizer step and once per epoch mean, about four times a second in one go.

    Three more methods are called where there are: `start(log_dir)` first, with the run's folder or None; `state_dict()` for a
    checkpoint, and `load_state_dict(state)` in a resumed fit before its first step, with the checkpoint's `"step"` in it.
    """

    def log_hyperparams(self, params: dict[str, Any]) -> None: ...
    def log_metrics(self, metrics: dict[str, float], step: int) -> None: ...
    def finalize(self, status: str) -> None: ...


def check_loggers(given: Any) -> tuple[Any, ...]:
    """The loggers of `Trainer(logger=…)`: none, one, several, or True for a CSVLogger.

    Raises:
        UsageError: something lacks one of the three methods.
    """
    if given is None or given is False:
        return ()
    if given is True:
        from gpulayer_nb.train.csv_logger import CSVLogger  # it needs this module

        return (CSVLogger(),)
    loggers = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for logger in loggers:
        missing = [name for name in ("log_hyperparams", "log_metrics", "finalize") if not callable(getattr(logger, name, None))]
        if missing:
            raise UsageError(
                f"logger: a {type(logger).__name__} has no {', '.join(missing)}. "
                "Next: `logger=glt.CSVLogger()`, or an object with log_hyperparams, log_metrics and finalize."
            )
    return loggers


def versioned(save_dir: str | Path | None, name: str, version: int | str | None, log_dir: Path | None) -> Path:
    """Where a logger writes: `<run folder>/<name>`, or `<save_dir>/<name>/version_<n>` with the next free number.

    Raises:
        UsageError: no folder is given, and the fit has none.
    """
    if save_dir is None:
        if log_dir is None:
            raise UsageError(f"the {name} logger does not know where to write: give it a save_dir.")
        return log_dir / name
    parent = Path(save_dir) / name
    if version is None:
        taken = [path.name.removeprefix("version_") for path in parent.glob("version_*")]
        version = max((int(number) for number in taken if number.isdigit()), default=-1) + 1
    return parent / (version if isinstance(version, str) else f"version_{version}")
