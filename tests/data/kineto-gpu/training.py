"""A small model is trained on a GPU under PyTorch's profiler; nine of its steps lose time, in four ways.

The trace beside it was recorded by an earlier form, which did the same; this one has not been run on a GPU.

Run: python tests/data/kineto-gpu/training.py FOLDER    with PyTorch and a GPU of NVIDIA's, which the project
does not need otherwise
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

STEPS = 400
SLEPT = {180: 0.06, 260: 0.06}
"""Seconds in ``load_batch``, on the CPU."""
SPUN = {160, 240, 340}
"""A kernel that nothing else launches: the wait for it is long."""
MULTIPLIED = {200, 300}
"""Six products of large matrices: the same."""
COPIED = {220, 360}
"""256 MB from memory that is not pinned: the copy is long, and the call that asks for it."""
CYCLES = 85_000_000


class Training:
    def __init__(self) -> None:
        widths = [(512, 2048), (2048, 2048), (2048, 10)]
        layers = [layer for width in widths for layer in (nn.Linear(*width), nn.ReLU())]
        self.model = nn.Sequential(*layers[:-1]).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        self.loss_of = nn.CrossEntropyLoss()
        self.data, self.labels = torch.randn(256, 512), torch.randint(0, 10, (256,), device="cuda")
        self.matrix, self.huge = torch.randn(4096, 4096, device="cuda"), torch.randn(64 << 20)

    def load_batch(self, step):
        with record_function("load_batch"):
            time.sleep(SLEPT.get(step, 0.0))
            return self.data + 0.001

    def step(self, step):
        with record_function("train"):
            batch = self.load_batch(step).cuda()
            with record_function("forward"):
                found = self.model(batch)
                if step in SPUN:
                    torch.cuda._sleep(CYCLES)
                for _ in range(6 if step in MULTIPLIED else 0):
                    self.matrix.mm(self.matrix)
            with record_function("backward"):
                loss = self.loss_of(found, self.labels)
                self.optimizer.zero_grad()
                loss.backward()
                if step in COPIED:
                    self.huge.cuda()
            with record_function("update"):
                self.optimizer.step()
            with record_function("read_loss"):
                return float(loss.detach())


def main(folder: Path) -> None:
    training = Training()
    for step in range(-30, 0):
        training.step(step)
    torch.cuda._sleep(1000)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for step in range(STEPS):
            with record_function("step"):
                training.step(step)
    profiler.export_chrome_trace(str(folder / "gpu.pt.trace.json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
