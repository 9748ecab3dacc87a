"""Which accelerator and backend a run uses. Arithmetic only."""

from __future__ import annotations

from gpulayer_nb.errors import PlanError, UsageError
from gpulayer_nb.plan.topology import Topology, count

ACCELERATORS = ("auto", "cpu", "cuda", "mps")


def check_accelerator(accelerator: str) -> str:
    """Lightning's word "gpu" means cuda here."""
    accelerator = "cuda" if accelerator == "gpu" else accelerator
    if accelerator not in ACCELERATORS:
        raise UsageError(f"--accelerator is {accelerator!r}; it is one of {', '.join(ACCELERATORS)}.")
    return accelerator


def choose_accelerator(asked: str, topology: Topology, *, cuda_devices: int, mps: bool, where: str) -> str:
    """The accelerator of a run on one machine with `cuda_devices` GPUs; a run is never made smaller than asked.

    "auto" takes CUDA where there are enough GPUs for every rank, else the CPU.

    Raises:
        PlanError: GPUs were asked for by name and there are too few, or MPS with more than one rank.
    """
    needed = topology.world_size
    if asked == "auto":
        if cuda_devices >= needed:
            return "cuda"
        return "mps" if mps and needed == 1 else "cpu"
    if asked == "cuda" and cuda_devices < needed:
        raise PlanError(
            f"{count(cuda_devices, 'GPU')} found on {where}, {needed} asked ({topology}). Nothing was started. "
            + (f"Next: `--devices {cuda_devices}`, or `--accelerator cpu`." if cuda_devices else "Next: `--accelerator cpu`.")
        )
    if asked == "mps":
        if needed > 1:
            raise PlanError(
                f"mps runs in one process only, {count(needed, 'rank')} asked. Nothing was started. Next: `--accelerator cpu`."
            )
        if not mps:
            raise PlanError(f"No MPS device found on {where}. Nothing was started. Next: `--accelerator cpu`.")
    return asked


def note_on_choice(asked: str, chosen: str, topology: Topology, *, mps: bool) -> str:
    """One line for whoever expected the Mac's GPU; empty where there is nothing to say."""
    if asked == "auto" and chosen == "cpu" and mps:
        return f"{count(topology.world_size, 'rank')} on the CPU: Apple's GPU (mps) serves one process only."
    return ""


def check_system(system: str) -> None:
    """Ranks are forked, and ended by signals: there is neither on Windows.

    Args:
        system: as `sys.platform` says it.

    Raises:
        PlanError: on Windows.
    """
    if system in ("win32", "cygwin"):
        raise PlanError(
            "Ranks do not run on Windows itself: they are forked and ended by signals. Nothing was started. "
            "Next: start Jupyter in WSL 2 (the Windows Subsystem for Linux)."
        )


def backend_for(accelerator: str) -> str:
    """nccl for CUDA, gloo for everything else."""
    return "nccl" if accelerator == "cuda" else "gloo"
