"""A small convolutional network for the digits, written as a user would: nothing in it knows of ranks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import gpulayer_nb as glt

LEARNING_RATE = 0.01  # with batches of 16 on 4 ranks: 97 to 99 % after 10 epochs with every seed tried


class DigitNet(glt.Module):
    """(N, 1, 8, 8) pictures to (N, 10) logits; 6 090 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),  # (N, 16, 4, 4)
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),  # (N, 32, 2, 2)
            nn.Flatten(), nn.Linear(128, 10),
        )  # fmt: skip

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.layers(pictures)
        return logits

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self._loss_and_accuracy(batch, "")

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._loss_and_accuracy(batch, "val_")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=LEARNING_RATE)

    def _loss_and_accuracy(self, batch: tuple[Tensor, Tensor], prefix: str) -> Tensor:
        pictures, labels = batch
        logits = self(pictures)
        loss = nn.functional.cross_entropy(logits, labels)
        self.log(f"{prefix}loss", loss, prog_bar=True)
        self.log(f"{prefix}acc", (logits.argmax(1) == labels).float().mean(), prog_bar=True)
        return loss
