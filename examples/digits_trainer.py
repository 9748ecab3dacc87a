"""The Python API in a script: train on digits with 2 simulated nodes × 2 devices, keep the best model.

python -m pip install 'gpulayer-nb[demo]' && python examples/digits_trainer.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gpulayer_nb as glt


class DigitNet(glt.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, pictures):
        return self.layers(pictures)  # (N, 10) logits

    def training_step(self, batch, batch_idx):
        pictures, labels = batch
        loss = nn.functional.cross_entropy(self(pictures), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        pictures, labels = batch
        self.log("val_acc", (self(pictures).argmax(1) == labels).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.005)


def main():
    digits = load_digits()
    pictures = torch.tensor(digits.images / 16, dtype=torch.float32)  # (1797, 8, 8)
    labels = torch.tensor(digits.target)
    train, val = torch.randperm(len(labels)).split([1437, 360])
    train_set = TensorDataset(pictures[train], labels[train])
    val_set = TensorDataset(pictures[val], labels[val])

    model = DigitNet()
    keep_best = glt.ModelCheckpoint(monitor="val_acc", mode="max")
    trainer = glt.Trainer(max_epochs=8, accelerator="cpu", devices=2, num_nodes=2, callbacks=[keep_best])
    run = trainer.fit(model, DataLoader(train_set, batch_size=16, shuffle=True), DataLoader(val_set, batch_size=64))

    print(run.metrics)
    print(run.checkpoints)
    print((model(pictures[val]).argmax(1) == labels[val]).float().mean())  # the trained weights are here


if __name__ == "__main__":
    main()
