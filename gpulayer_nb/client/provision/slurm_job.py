"""The batch job that runs one worker a node: sbatch's options and the script. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer_nb.errors import UsageError

# {…} is filled in by ipyparallel's launcher. One task a node is one worker a node; --no-requeue, because a job that Slurm starts
# again by itself would be an automatic retry. Since Slurm 22.05 srun asks for its CPUs itself.
TEMPLATE = """#!/bin/sh
#SBATCH --job-name=gpulayer-{cluster_id}
#SBATCH --nodes={n}
#SBATCH --ntasks-per-node=1
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --output={output_file}
{wishes}
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
exec srun --ntasks-per-node=1 --kill-on-bad-exit=1 --label {program_and_args}
"""
_OURS = {
    "nodes": "--nodes", "N": "--nodes", "ntasks": None, "n": None, "ntasks-per-node": None, "array": None, "a": None,
    "requeue": None, "wrap": None, "parsable": None, "wait": "--wait-time", "W": "--wait-time",
}  # fmt: skip


def sbatch_options(words: Sequence[str]) -> tuple[str, ...]:
    """Options as typed, one string each: `--partition gpu --exclusive -A lab` → `--partition=gpu`, `--exclusive`, `-A lab`.

    Raises:
        UsageError: a word that belongs to no option, or an option that this job settles itself.
    """
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise UsageError(f"%gpulayer up knows no word {word}. Next: write sbatch's options as `--name value`.")
        value = rest.pop(0) if "=" not in word and rest and not rest[0].startswith("-") else None
        _check(word, value)
        separator = "=" if word.startswith("--") else " "
        found.append(word if value is None else f"{word}{separator}{value}")
    return tuple(found)


def _check(word: str, value: str | None) -> None:
    name = word.lstrip("-").partition("=")[0]
    if name in _OURS:
        instead = _OURS[name]
        raise UsageError(
            f"{word} is settled by gpulayer: one task a node, never started again by itself."
            + (f" Next: `{instead}`." if instead else " Next: leave it out; `--nodes` and `--devices` say how many ranks.")
        )
    if "\n" in word or "\n" in (value or ""):
        raise UsageError(f"{word} has a line break in it.")


def directives(options: Sequence[str], devices: int, accelerator: str) -> str:
    """The `#SBATCH` lines that depend on what was asked: what the user wrote comes last, and sbatch takes the last."""
    names = {option.lstrip("-").partition("=")[0].partition(" ")[0] for option in options}
    ours = []
    if not names & {"cpus-per-task", "c", "exclusive", "cpus-per-gpu"}:
        ours.append(f"--cpus-per-task={devices}")
    if accelerator == "cuda" and not any(name.startswith(("gres", "gpus", "tres-per", "G")) for name in names):
        ours.append(f"--gpus-per-node={devices}")
    return "\n".join(f"#SBATCH {option}" for option in (*ours, *options))
