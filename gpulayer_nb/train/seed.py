"""Random numbers: equal where ranks must agree, different where they must not, repeatable always.

Runs in a rank. Owns the seeds of python, numpy and torch during a fit. Must not know models or loaders.
"""

from __future__ import annotations

import hashlib
import random
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

CHOSEN_BELOW = 2**32  # torch starts a process with a random 64-bit seed; a seed that somebody wrote down is smaller


def seed_everything(seed: int) -> int:
    """Seed python's, numpy's (if it is loaded) and torch's generators, on all devices, and return the seed."""
    seed_host(seed)
    torch.manual_seed(seed)
    return seed


def seed_host(seed: int) -> None:
    """The same for main memory's generators only."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def _seed_torch(seed: int) -> None:
    """`torch.manual_seed` without its queue of calls for a GPU that nobody uses: 10 ms and a stack trace kept, every time."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


def mixed(*parts: int) -> int:
    """One 63-bit seed from several whole numbers; near inputs give unrelated seeds.

    torch seeds a loader's worker k with `base + k`, so neighbouring ranks must not be given neighbouring seeds.
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def order_seed() -> int:
    """The seed of shuffles when no option names one: that of the last `torch.manual_seed` here, else torch's own default 0."""
    seed = torch.initial_seed()
    return seed if seed < CHOSEN_BELOW else 0


@dataclass(frozen=True)
class FitSeeds:
    """Where the random numbers of a fit come from: one base for each library, the same on every rank.

    What a rank draws in an epoch depends on the base, the epoch and the rank only, so a resumed fit draws the same.
    """

    torch: int
    numpy: int
    python: int

    @classmethod
    def chosen(cls, seed: int) -> FitSeeds:
        return cls(seed, seed, seed)

    @classmethod
    def drawn(cls) -> FitSeeds:
        """From each library's own generator, so that whoever has seeded one gets the same again, and a second fit others."""
        numpy: Any = sys.modules.get("numpy")
        return cls(
            torch=int(torch.empty((), dtype=torch.int64).random_().item()),
            numpy=0 if numpy is None else int(numpy.random.randint(2**31)),
            python=random.getrandbits(62),
        )

    def start_epoch(self, epoch: int, rank: int) -> None:
        """Seed this rank for an epoch: other numbers on every rank and in every epoch."""
        _seed_torch(mixed(self.torch, epoch, rank))
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(mixed(self.numpy, epoch, rank) % 2**32)
        random.seed(mixed(self.python, epoch, rank))


def random_states() -> dict[str, Any]:
    """This rank's generators as they are, in values that a checkpoint may hold."""
    numpy: Any = sys.modules.get("numpy")
    version, words, gauss = random.getstate()
    states: dict[str, Any] = dict.fromkeys(("numpy", "cuda"))
    states |= {"torch": torch.get_rng_state(), "python": [version, list(words), gauss]}
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        states["numpy"] = [kind, keys.tolist(), *rest]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random_states(states: dict[str, Any]) -> None:
    """Draw on from where `random_states` was taken."""
    torch.set_rng_state(states["torch"])
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    if (numpy := sys.modules.get("numpy")) is not None and states["numpy"] is not None:
        numpy.random.set_state(tuple(states["numpy"]))
    if states["cuda"] is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.cuda.set_rng_state(states["cuda"])


class KeptRandomState:
    """Puts python's, numpy's and torch's random states back at the end of a fit, so that code after it draws as before."""

    def __enter__(self) -> KeptRandomState:
        self._python = random.getstate()
        numpy: Any = sys.modules.get("numpy")
        self._numpy = None if numpy is None else numpy.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda)
