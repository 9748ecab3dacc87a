"""How to fit: the options of `Trainer` and `%%gpulayer` that travel to the ranks.

Made in the kernel, read on engines. Owns defaults and their checks. Must not know torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer_nb.errors import UsageError

PRECISIONS = ("32", "bf16-mixed", "16-mixed")


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Names and meaning as in Lightning's Trainer.

    `max_time_seconds` is wall time; `gradient_clip_val` a norm; a limit is a number of batches (int) or a share (float, 0 to 1);
    `seed` None means: the same start weights on all ranks (rank 0's), no promise about the order of random numbers.
    `checkpoint_dir` None means `<run folder>/checkpoints`. `resume` is a checkpoint's path, "last" or
    "best"; the latter two are looked for in `resume_dir`, else in the checkpoint folder.
    """

    max_epochs: int | None = 1
    max_steps: int | None = None
    max_time_seconds: float | None = None
    precision: str = "32"
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = None
    sync_batchnorm: bool = False
    find_unused_parameters: bool = False
    seed: int | None = None
    deterministic: bool = False
    check_val_every_n_epoch: int = 1
    limit_train_batches: int | float | None = None
    limit_val_batches: int | float | None = None
    limit_test_batches: int | float | None = None
    limit_predict_batches: int | float | None = None
    use_distributed_sampler: bool = True
    enable_checkpointing: bool = True
    checkpoint_dir: str | None = None
    resume: str | None = None
    resume_dir: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_epochs", 0), ("max_steps", 1), ("accumulate_grad_batches", 1), ("check_val_every_n_epoch", 1)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise UsageError(f"{name} is {value!r}; it is a whole number of at least {least}.")
        if self.max_epochs is None and self.max_steps is None and self.max_time_seconds is None:
            raise UsageError("max_epochs, max_steps and max_time are all None: the run would never end. Give one of them.")
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision is {self.precision!r}; it is one of {', '.join(PRECISIONS)}.")
        for name in ("limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches"):
            limit = getattr(self, name)
            whole = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
            if limit is not None and not whole and not (isinstance(limit, float) and 0 <= limit <= 1):
                raise UsageError(f"{name} is {limit!r}; it is a number of batches, for example 10, or a share from 0.0 to 1.0.")
        if self.max_time_seconds is not None and not (_is_number(self.max_time_seconds) and self.max_time_seconds > 0):
            raise UsageError(f"max_time_seconds is {self.max_time_seconds!r}; it is a number of seconds above 0.")
        if self.gradient_clip_val is not None and not (_is_number(self.gradient_clip_val) and self.gradient_clip_val > 0):
            raise UsageError(f"gradient_clip_val is {self.gradient_clip_val!r}; it is a norm above 0.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
