"""Pictures that compute themselves and exercises that say what is wrong, for the notebooks of the course.

Runs in the kernel; the two clocks (`time_steps`, `RankLog`) run on ranks. Owns the list of its names, looked up at their first
use: matplotlib is loaded with the first picture, torch with the first measurement. Must not start, stop or change ranks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer_nb.teach.checks.batches import check_exact_average as check_exact_average
    from gpulayer_nb.teach.checks.batches import check_global_batch as check_global_batch
    from gpulayer_nb.teach.checks.batches import check_same_training as check_same_training
    from gpulayer_nb.teach.checks.debugging import check_all_count as check_all_count
    from gpulayer_nb.teach.checks.debugging import check_culprits as check_culprits
    from gpulayer_nb.teach.checks.debugging import check_skip_together as check_skip_together
    from gpulayer_nb.teach.checks.gradients import check_accumulation as check_accumulation
    from gpulayer_nb.teach.checks.gradients import check_average_gradients as check_average_gradients
    from gpulayer_nb.teach.checks.gradients import check_equal_on_all_ranks as check_equal_on_all_ranks
    from gpulayer_nb.teach.checks.nodes import check_environment as check_environment
    from gpulayer_nb.teach.checks.nodes import check_slurm_numbers as check_slurm_numbers
    from gpulayer_nb.teach.checks.nodes import check_uneven_rank as check_uneven_rank
    from gpulayer_nb.teach.checks.ranks import check_rank_formula as check_rank_formula
    from gpulayer_nb.teach.checks.ranks import check_where_am_i as check_where_am_i
    from gpulayer_nb.teach.checks.ranks import check_writer as check_writer
    from gpulayer_nb.teach.checks.sharding import check_exact_accuracy as check_exact_accuracy
    from gpulayer_nb.teach.checks.sharding import check_shard as check_shard
    from gpulayer_nb.teach.checks.sharding import check_steps_per_epoch as check_steps_per_epoch
    from gpulayer_nb.teach.checks.speed import check_amdahl as check_amdahl
    from gpulayer_nb.teach.checks.speed import check_reading as check_reading
    from gpulayer_nb.teach.checks.speed import check_ring_megabytes as check_ring_megabytes
    from gpulayer_nb.teach.checks.talking import check_largest as check_largest
    from gpulayer_nb.teach.checks.talking import check_logging as check_logging
    from gpulayer_nb.teach.checks.talking import check_weighted_mean as check_weighted_mean
    from gpulayer_nb.teach.checks.verdict import Verdict as Verdict
    from gpulayer_nb.teach.clocks.rank_log import RankLog as RankLog
    from gpulayer_nb.teach.clocks.step_clock import time_steps as time_steps
    from gpulayer_nb.teach.pictures.allreduce_cost import allreduce_cost as allreduce_cost
    from gpulayer_nb.teach.pictures.allreduce_cost import latency_and_bandwidth as latency_and_bandwidth
    from gpulayer_nb.teach.pictures.global_batch import Training as Training
    from gpulayer_nb.teach.pictures.global_batch import global_batch as global_batch
    from gpulayer_nb.teach.pictures.gradient_bars import gradient_bars as gradient_bars
    from gpulayer_nb.teach.pictures.gradient_bars import gradient_of_one_weight as gradient_of_one_weight
    from gpulayer_nb.teach.pictures.look import DARK as DARK
    from gpulayer_nb.teach.pictures.look import LIGHT as LIGHT
    from gpulayer_nb.teach.pictures.parameter_drift import parameter_drift as parameter_drift
    from gpulayer_nb.teach.pictures.picture import Picture as Picture
    from gpulayer_nb.teach.pictures.rank_tree import rank_tree as rank_tree
    from gpulayer_nb.teach.pictures.ring_allreduce import ring_allreduce as ring_allreduce
    from gpulayer_nb.teach.pictures.sample_grid import sample_grid as sample_grid
    from gpulayer_nb.teach.pictures.scaling import amdahl as amdahl
    from gpulayer_nb.teach.pictures.scaling import scaling as scaling
    from gpulayer_nb.teach.pictures.step_timeline import step_timeline as step_timeline
    from gpulayer_nb.teach.pictures.waiting_ranks import waiting_ranks as waiting_ranks

_NAMES = {
    "checks.batches": ("check_exact_average", "check_global_batch", "check_same_training"),
    "checks.debugging": ("check_all_count", "check_culprits", "check_skip_together"),
    "checks.gradients": ("check_accumulation", "check_average_gradients", "check_equal_on_all_ranks"),
    "checks.nodes": ("check_environment", "check_slurm_numbers", "check_uneven_rank"),
    "checks.ranks": ("check_rank_formula", "check_where_am_i", "check_writer"),
    "checks.sharding": ("check_exact_accuracy", "check_shard", "check_steps_per_epoch"),
    "checks.speed": ("check_amdahl", "check_reading", "check_ring_megabytes"),
    "checks.talking": ("check_largest", "check_logging", "check_weighted_mean"),
    "checks.verdict": ("Verdict",),
    "clocks.rank_log": ("RankLog",),
    "clocks.step_clock": ("time_steps",),
    "pictures.allreduce_cost": ("allreduce_cost", "latency_and_bandwidth"),
    "pictures.global_batch": ("Training", "global_batch"),
    "pictures.gradient_bars": ("gradient_bars", "gradient_of_one_weight"),
    "pictures.look": ("DARK", "LIGHT"),
    "pictures.parameter_drift": ("parameter_drift",),
    "pictures.picture": ("Picture",),
    "pictures.rank_tree": ("rank_tree",),
    "pictures.ring_allreduce": ("ring_allreduce",),
    "pictures.sample_grid": ("sample_grid",),
    "pictures.scaling": ("amdahl", "scaling"),
    "pictures.step_timeline": ("step_timeline",),
    "pictures.waiting_ranks": ("waiting_ranks",),
}
_HOMES = {name: f"gpulayer_nb.teach.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """The picture, check or clock of that name, imported now and kept."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
