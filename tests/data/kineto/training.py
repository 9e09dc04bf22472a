"""Four processes train a small model together under PyTorch's profiler; three lose time, in a step each.

Run: python tests/data/kineto/training.py FOLDER    with PyTorch, which the project does not need otherwise
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

WORLD = 4
STEPS = 60
STRAGGLERS = {1: (25, 0.15, "load_batch"), 3: (38, 0.20, "augment"), 2: (50, 0.12, "load_batch")}


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def load_batch(rank, step):
    with record_function("load_batch"):
        x = torch.randn(16, 64)
        lose(rank, step, "load_batch")
        return x


def augment(x, rank, step):
    with record_function("augment"):
        x = x + 0.01 * torch.randn_like(x)
        lose(rank, step, "augment")
        return x


TRUTH = []


def lose(rank, step, where):
    at = STRAGGLERS.get(rank)
    if at and at[0] == step and at[2] == where:
        begin = time.time_ns() // 1000
        time.sleep(at[1])
        TRUTH.append(
            {
                "rank": rank,
                "step": step,
                "function": where,
                "seconds": at[1],
                "begin_us": begin,
                "end_us": time.time_ns() // 1000,
            }
        )


def work(rank, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29577", RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        model(torch.randn(16, 64)).sum().backward()
        optimiser.step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for step in range(STEPS):
            x = augment(load_batch(rank, step), rank, step)
            optimiser.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimiser.step()
            if step % 5 == 4:
                with record_function("metrics"):
                    value = loss.detach().clone()
                    dist.all_reduce(value)
            profiler.step()
    profiler.export_chrome_trace(f"{out}/rank{rank}.pt.trace.json")
    Path(f"{out}/truth-{rank}.json").write_text(json.dumps(TRUTH))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1],), nprocs=WORLD)
