"""Is it true what the model says of where the analysis runs? Real runs of a mini-application, predicted.

Run: python -m benchmarks.placing [--quick] [--keep] [--json FILE]
     python -m benchmarks.placing --kept

Runs without an analysis, and with one on whole cores at the lowest and the highest event rate, are what the
model is fitted to; configurations of two other rates, two periods and six splits of two cores, three of
them with a CPU quota for the analysis, are predicted. Each of these runs four times, once in each of four
passes over all of them in an order of chance, and the median is what was measured. All processes of
the analysis keep to its cores, or have its quota together. The work of a step is measured anew before each
run, so that a machine that becomes faster or slower meanwhile is no error of the model. The exit code is 1
where the predictions are not what is required. Some 22 minutes on two cores that have nothing else to do.
With --keep the runs are kept beside this file, for docs/howto/insitu.md (report.py --document insitu,
which prints them by --kept), and what is usual of the analysis in the package, for predictions of
runs that have not shown it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks.placing.judging import PREDICTED, SPLITS, WHOLE, Run, fitted
from benchmarks.placing.miniapp import work
from benchmarks.placing.printing import FILE, Series, as_documented, failures_of, kept
from benchmarks.placing.quota import Group, quota_group
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.tausettings import application_settings
from chimbuko.core.errors import ConfigError
from chimbuko.plan import placingcosts
from chimbuko.plan.placingadvice import Where
from chimbuko.plan.placingcosts import Usual

ENDS, RATES = (5_000, 240_000), (100_000, 180_000)
"""Rows of a step of the application: what the model is fitted to, and what it predicts."""
EVERY = (1, 4)
STEP_S = 0.2
"""Of the application's work, on one core."""
STEPS, QUICK_STEPS = 20, 4
"""For each rank, so that all runs take as long."""
PASSES = 4
"""What the analysis adds differs by a quarter between single runs on cores that ranks share with it."""
LIMIT_S = 300.0
MOST_OTHERS = 0.03
"""Cores that others may take; a run in which they took more is run again,"""
UNCOUNTED_S = 0.1
"""By which the counters of ten processes, in ticks of 10 ms, can differ from those of the cores."""
TRIES = 3
"""and so often at most."""
_ROOT = Path(__file__).resolve().parents[2]
_Plan = tuple[str, int, int]
"""Split, rows, and steps of the application in one of the trace."""


def _calibrated(step_s: float) -> int:
    """Loops that take so long now."""
    took_s = []
    for _ in range(5):
        began_s = time.process_time()
        work(20_000)
        took_s.append(time.process_time() - began_s)
    return round(20_000 * step_s / min(took_s))


def _cores(split: str) -> tuple[list[int], set[int]]:
    """Of the ranks, and of all processes of the analysis."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    both = [first, second]
    if split not in SPLITS:
        return both[: int(split.removeprefix("alone "))], set(both)
    ranks, cores, placement = SPLITS[split]
    if placement.where is Where.SHARED:
        return both[:ranks], set(both[:cores])
    return both[:ranks], {second}


def _measured(plan: _Plan, step_s: float, steps: int, group: Group | None, tries: int) -> Run:
    """A run that had the machine for itself, or of several that had not the one that had most of it."""
    found = []
    for _ in range(tries):
        run, others_s = _run(plan, step_s, steps, group)
        seconds = run.steps * run.step_s
        found.append((others_s / seconds, run))
        if others_s <= MOST_OTHERS * seconds + UNCOUNTED_S:
            break
        print(f"{plan}: others took {others_s / seconds:.2f} cores meanwhile", file=sys.stderr)
    return min(found, key=lambda one: one[0])[1]


def _run(plan: _Plan, step_s: float, steps: int, group: Group | None) -> tuple[Run, float]:
    """One run, and the CPU time that others took meanwhile."""
    split, rows, every = plan
    loops = _calibrated(step_s)
    cores, analysis = _cores(split)
    steps *= len(cores)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        words = [sys.executable, "-m", "benchmarks.placing.miniapp", "--result", str(folder / "result")]
        values = {"ranks": len(cores), "loops": loops, "rows": rows, "every": every, "steps": steps}
        words += [word for option, value in values.items() for word in (f"--{option}", str(value))]
        words += ["--cores", ",".join(map(str, cores))]
        quota = group if split in SPLITS and split not in WHOLE else None
        if quota is not None:
            words += ["--group", str(quota.folder), str(quota.outer), "--quota", str(SPLITS[split][2].cores)]
        environment = dict(os.environ)
        if split in SPLITS:
            own = ["run", "--no-dashboard", "-o", str(folder / "run"), "--period", f"{STEP_S * every / 2:g}"]
            words = [sys.executable, "-m", "chimbuko", *own, "--", *words]
        else:
            streams = folder / "streams"
            streams.mkdir()
            environment |= application_settings(folder, streams, 10**6, os.environ, Transport.FILES)
        done = subprocess.run(
            words,
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            preexec_fn=lambda: _confine(analysis, quota),
        )
        if done.returncode or not (folder / "result").exists():
            raise SystemExit(f"{plan}: ended with {done.returncode}\n{done.stderr}")
        found = json.loads((folder / "result").read_text())
    cpu_s = found["analysis_cpu_s"] if split in SPLITS else 0.0
    run = Run(split, len(cores), rows, every, steps, found["seconds"] / steps, cpu_s)
    return run, found["others_cpu_s"]


def _confine(cores: set[int], quota: Group | None) -> None:
    """This process, and those that it starts."""
    os.sched_setaffinity(0, cores)
    if quota is not None:
        quota.join()


def _run_all(
    plans: Sequence[_Plan], step_s: float, steps: int, seed: int, group: Group | None, tries: int
) -> list[Run]:
    """In an order of chance, so that what drifts is no split's."""
    order = random.Random(seed).sample(plans, len(plans))
    runs = []
    for number, plan in enumerate(order, start=1):
        runs.append(_measured(plan, step_s, steps, group, tries))
        run = runs[-1]
        print(
            f"{number}/{len(order)} {run.split}, {run.rows:,} rows, {run.every} a step of the trace: "
            f"{run.step_s:.4f} s, analysis {run.analysis_cpu_s:.2f} CPU-s",
            file=sys.stderr,
        )
    return runs


def _write(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")


def _measure(options: argparse.Namespace) -> Series:
    """All runs."""
    step_s, rates, held_out, every = STEP_S, ENDS, RATES, EVERY
    if options.quick:
        step_s, every = STEP_S / 5, EVERY[:1]
        rates, held_out = tuple(rows // 5 for rows in ENDS), tuple(rows // 5 for rows in RATES[1:])
    steps, passes, tries = (QUICK_STEPS, 1, 1) if options.quick else (STEPS, PASSES, TRIES)
    training = [(f"alone {ranks}", rows, 1) for ranks in (1, 2) for rows in rates]
    training += [] if options.quick else training
    training += [(split, rows, each) for split in WHOLE for rows in rates for each in every]
    with ExitStack() as stack:
        group, splits = None, PREDICTED
        try:
            group = stack.enter_context(quota_group())
        except ConfigError as error:
            print(f"{error}: only whole cores, by affinity", file=sys.stderr)
            splits = [split for split in PREDICTED if split in WHOLE]
        others = [(split, rows, each) for split in splits for rows in held_out for each in every]
        fitting = _run_all(training, step_s, steps, 1, group, tries)
        passed = [_run_all(others, step_s, steps, 2 + turn, group, tries) for turn in range(passes)]
    return Series(fitting, [run for runs in passed for run in runs])


def main() -> None:
    """Measure, predict and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few small runs, to try it out")
    parser.add_argument("--keep", action="store_true", help="keep runs, and what is usual in the package")
    parser.add_argument("--kept", action="store_true", help="print what was kept last")
    parser.add_argument("--json", type=Path, help="write all runs there")
    options = parser.parse_args()
    if options.kept:
        print(as_documented(kept()))
        return
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed")
    # So that no group of ours is left behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    series = _measure(options)
    if options.json is not None:
        _write(options.json, series)
    model = fitted(series.fitted)
    if options.keep:
        _write(FILE, series)
        _write(Path(placingcosts.__file__).with_name(placingcosts.FILE), Usual(model.costs, model.slowdown))
    print(as_documented(series))
    sys.exit(1 if failures_of(series) else 0)


if __name__ == "__main__":
    main()
