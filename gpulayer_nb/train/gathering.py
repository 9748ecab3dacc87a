"""Joins what every rank has into one whole, for metrics that are no means: F1, AUC, a correlation.

Runs in a rank. Must not know what the values mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

# Words in a metric's name that say: the mean of the batches' values is not the value of all samples.
NON_LINEAR = frozenset(
    {
        "f1", "fbeta", "auc", "auroc", "auprc", "ap", "map", "precision", "recall", "rmse", "r2", "mcc", "kappa", "corr",
        "pearson", "spearman", "perplexity", "ppl", "bleu", "iou", "dice",
    }
)  # fmt: skip


def non_linear(names: Any) -> list[str]:
    """Those names that speak of such a metric: `val_f1`, `test/AUROC`, but not `feature`."""
    return [name for name in names if not NON_LINEAR.isdisjoint(name.lower().replace("/", "_").replace("-", "_").split("_"))]


def joined(parts: list[Any], device: torch.device) -> Any:
    """One value from each rank's, in rank order.

    Tensors are concatenated along the first dimension (numbers become it), lists are joined, dicts and tuples part by part; of
    anything else there is a list with one entry per rank.
    """
    first = parts[0]
    if all(isinstance(part, (Tensor, int, float)) for part in parts):
        tensors = [part if isinstance(part, Tensor) else torch.tensor(part) for part in parts]
        return torch.cat([tensor.to(device).reshape(-1) if tensor.dim() == 0 else tensor.to(device) for tensor in tensors])
    if all(isinstance(part, list) for part in parts):
        return [_placed(item, device) for part in parts for item in part]
    if isinstance(first, Mapping):
        return {name: joined([part[name] for part in parts], device) for name in first}
    if isinstance(first, tuple):
        return tuple(joined(list(column), device) for column in zip(*parts, strict=True))
    return parts


def _placed(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def on_host(value: Any) -> Any:
    """The same without gradients and in main memory, to be sent."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, Mapping):
        return {name: on_host(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(on_host(part) for part in value)
    return value
