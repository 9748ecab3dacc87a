"""1 797 real pictures of handwritten digits, 8 × 8 pixels. They come with scikit-learn: nothing is downloaded."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from gpulayer_nb.errors import UsageError

TRAIN_SHARE = 0.8
BRIGHTEST = 16.0  # scikit-learn's pixels are whole numbers from 0 to 16


@dataclass(frozen=True)
class Digits:
    """Pictures are (N, 1, 8, 8), from 0 to 1; labels are (N,), 0 to 9."""

    train_set: TensorDataset
    val_set: TensorDataset


def load() -> Digits:
    """The digits, always divided the same way.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as missing:
        raise UsageError(
            "The digits come with scikit-learn, which is not installed. Next: python -m pip install 'gpulayer-nb[demo]' "
            "(in a checkout: '.[demo]')"
        ) from missing
    bunch = load_digits()
    pictures: Tensor = torch.tensor(bunch.images / BRIGHTEST, dtype=torch.float32).unsqueeze(1)  # (1797, 1, 8, 8)
    labels: Tensor = torch.tensor(bunch.target)  # (1797,)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, val = order[: int(TRAIN_SHARE * len(labels))], order[int(TRAIN_SHARE * len(labels)) :]
    return Digits(TensorDataset(pictures[train], labels[train]), TensorDataset(pictures[val], labels[val]))
