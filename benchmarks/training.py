"""Delays of single ranks in a training with PyTorch: how many are found, and what recording costs.

    python -m benchmarks.training [--steps 400] [--delays 12] [--rounds 3] [--python PYTHON]

Four processes train a small model by gloo on CPUs, started by ``torchrun``. In a few steps one rank sleeps
for 100 to 300 ms: while its batch is loaded, in forward, before a collective operation, or in a checkpoint. A
delay is found if an incident has its time, its rank and its function as origin.

The cost is the CPU time of the threads that train, recorded and not in turn, and the time of their loops.
The latter says something only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chimbuko.provenance.incidents.incidentlist import Incidents, IncidentSummary
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory

RANKS = 4
PLACES = {"__getitem__": 1, "forward": 1, "metrics": 5, "save_checkpoint": 20}
"""Functions that lose time, each called every so many steps."""
FIRST_DELAYED = 100
"""Step before which nothing is delayed: functions have to be known."""
APART = 4
"""Least number of steps between two delays."""
SHOWN = 400

PROGRAM = """
import json, os, sys, time
import torch, torch.distributed as dist

torch.set_num_threads(1)
folder, steps, plan = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
rank = int(os.environ["RANK"])
plan = {(place, step): seconds for place, step, of_rank, seconds in plan if of_rank == rank}
truth, now = [], {"step": 0}

class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 16 * steps

    def __getitem__(self, number):
        if number % 16 == 0 and (seconds := plan.get(("__getitem__", number // 16))):
            truth.append((rank, "__getitem__", time.time_ns() // 1000)), time.sleep(seconds)
        return torch.full((512,), number % 7 / 7), number % 8

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(512, 512) for _ in range(4)])
        self.last = torch.nn.Linear(512, 8)

    def forward(self, x):
        if seconds := plan.get(("forward", now["step"])):
            truth.append((rank, "forward", time.time_ns() // 1000)), time.sleep(seconds)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)

def metrics(loss):
    if seconds := plan.get(("metrics", now["step"])):
        truth.append((rank, "metrics", time.time_ns() // 1000)), time.sleep(seconds)
    value = loss.detach().clone()
    dist.all_reduce(value)
    return value.item()

def save_checkpoint(model):
    if seconds := plan.get(("save_checkpoint", now["step"])):
        truth.append((rank, "save_checkpoint", time.time_ns() // 1000)), time.sleep(seconds)
    torch.save(model.state_dict(), f"{folder}/{rank}.pt")

def train():
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(Net())
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    begin, cpu = time.perf_counter(), time.thread_time()
    for step, (x, y) in enumerate(torch.utils.data.DataLoader(Batches(), batch_size=16)):
        now["step"] = step + 1
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        if step % 5 == 4:
            metrics(loss)
        if step % 20 == 19:
            save_checkpoint(model)
    spent = {"wall_s": time.perf_counter() - begin, "cpu_s": time.thread_time() - cpu}
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(spent | {"truth": truth}, file)
    dist.barrier()
    dist.destroy_process_group()

train()
"""

Delay = tuple[str, int, int, float]


def main() -> None:
    """Measure, and print what was found and what it cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--delays", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chimbuko-benchmark-") as name:
        folder = Path(name)
        plan = planned(options.steps, options.delays)
        run_training(options.python, folder, options.steps, plan, folder / "run")
        found = found_delays(folder, folder / "run")
        print(f"found: {sum(map(bool, found.values()))} of {len(found)} delays", flush=True)
        for delay, sentence in found.items():
            print(" ", *delay, sentence or "missed")
        alone, recorded = [], []
        for number in range(options.rounds):
            run_training(options.python, folder, options.steps, (), None)
            alone.append(costs(folder))
            run_training(options.python, folder, options.steps, (), folder / f"run{number}")
            recorded.append(costs(folder))
        for at, kind in enumerate(("CPU time", "wall time") if options.rounds else ()):
            plain, traced = (statistics.median(one[at] for one in kinds) for kinds in (alone, recorded))
            print(f"{kind}: {plain:.2f} s alone, {traced:.2f} s recorded: {traced / plain - 1:+.1%}")


def planned(steps: int, delays: int) -> list[Delay]:
    """Delays in turn at all places, by chance at ranks and steps, and far enough apart."""
    chance = random.Random(7)
    free = {
        place: [step for step in range(FIRST_DELAYED, steps) if step % every == 0]
        for place, every in PLACES.items()
    }
    plan: list[Delay] = []
    for place in [*PLACES] * (delays // len(PLACES)):
        used = [step for _, step, *_ in plan]
        open_steps = [step for step in free[place] if all(abs(step - one) >= APART for one in used)]
        plan.append((place, chance.choice(open_steps), chance.randrange(RANKS), chance.uniform(0.1, 0.3)))
    return plan


def run_training(python: str, folder: Path, steps: int, plan: Sequence[Delay], run: Path | None) -> None:
    """Train, recorded into a run or alone."""
    script = folder / "train.py"
    script.write_text(PROGRAM)
    words = [python, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}"]
    words += [str(script), str(folder), str(steps), json.dumps(plan)]
    ours = [sys.executable, "-m", "chimbuko", "run", "--no-dashboard", "-o", str(run), "--"] if run else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*ours, *words], check=True, env=environment, capture_output=True, stdin=subprocess.DEVNULL
    )


def results(folder: Path) -> list[dict[str, Any]]:
    """What the ranks of the last training have said."""
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def costs(folder: Path) -> tuple[float, float]:
    """CPU time of all ranks, and wall time of the slowest."""
    said = results(folder)
    return sum(one["cpu_s"] for one in said), max(one["wall_s"] for one in said)


def found_delays(folder: Path, run: Path) -> dict[tuple[int, str, int], str]:
    """Sentence of the incident whose origin each delay is, by rank, function and time; empty for none."""
    with open_run(RunDirectory(run)) as provenance:
        incidents = Incidents(provenance.reader).page(limit=SHOWN).incidents
    truth = [tuple(delay) for one in results(folder) for delay in one["truth"]]
    return {
        (rank, place, us): next((one.sentence for one in incidents if is_of(one, rank, place, us)), "")
        for rank, place, us in truth
    }


def is_of(incident: IncidentSummary, rank: int, place: str, begin_us: int) -> bool:
    """Whether an incident begins with a delay; a call begins before the delay in it."""
    is_then = incident.begin_us <= begin_us <= incident.end_us
    return is_then and incident.rank == rank and f"{place} [" in incident.function


if __name__ == "__main__":
    main()
