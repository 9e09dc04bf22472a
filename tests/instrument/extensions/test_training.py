"""A training with PyTorch is recorded without a change: operators, waits for other ranks, iterations."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chimbuko.cli.execute.interpreter import recorded_launch
from chimbuko.core.traceschema import NOT_RECORDED, Operation
from tests.instrument.recorder.streams import Stream, streams
from tests.patience import PATIENCE_S

PYTHON = os.environ.get("CHIMBUKO_TEST_TORCH", sys.executable)
"""A Python with PyTorch."""
STEPS = 6

PROGRAM = f"""
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return {STEPS}

    def __getitem__(self, number):
        return torch.full((4,), 1.0)

def total(value):
    dist.all_reduce(value)

def evaluate(model):
    for x in DataLoader(Batches()):
        model(x)

def train():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(Batches(), num_workers=1):
        optimiser.zero_grad()
        model(x).sum().backward()
        optimiser.step()
    evaluate(model)

torch.set_num_threads(1)
dist.init_process_group("gloo")
train()
total(torch.ones(2))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Stream]:
    """Streams of two ranks, each with that of a worker of its data loader."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
        pytest.skip(f"no PyTorch in {PYTHON}: pip install torch, or name a Python in CHIMBUKO_TEST_TORCH")
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(PROGRAM)
    words = recorded_launch(
        [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node=2", f"{folder}/train.py"]
    )
    assert words is not None
    environment = {**os.environ, "TAU_ADIOS2_FILENAME": str(folder / "tau-metrics"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return streams(folder)


def test_operators_and_iterations_are_calls(recorded: list[Stream]) -> None:
    assert [stream.rank for stream in recorded[:2]] == [0, 1]
    for stream in recorded[:2]:
        assert stream.metadata(NOT_RECORDED) == ""
        found = stream.nesting()
        # The first iteration shows which batches lead to a step, and the last request for one finds none.
        assert found["train", "training step"] == STEPS
        assert found["training step", "SGD.step"] == STEPS - 1
        assert found["training step", "DistributedDataParallel.forward"] == STEPS - 1
        assert found["training step", "AddmmBackward0"] == STEPS - 1
        assert found["evaluate", "training step"] == 0


def test_waits_for_other_ranks_are_collective_operations(recorded: list[Stream]) -> None:
    for stream in recorded[:2]:
        assert stream.nesting()["total", "gloo:all_reduce"] == 1
    numbers = [
        {tuple(row[4:8:2].tolist()) for row in stream.operations if row[3] == Operation.COLLECTIVE}
        for stream in recorded[:2]
    ]
    common = numbers[0] & numbers[1]
    assert common, "group and number are the same on both ranks"
    assert max(number for _, number in numbers[0]) == max(number for _, number in numbers[1]) >= STEPS


def test_workers_of_a_data_loader_are_children(recorded: list[Stream]) -> None:
    workers = recorded[2:]
    assert len(workers) == 2
    for stream in workers:
        assert stream.calls()["Batches.__getitem__"] == STEPS
