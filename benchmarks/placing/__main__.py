"""Is it true what the model says of where the analysis runs? Real runs of a mini-application, predicted.

Run: python -m benchmarks.placing [--quick] [--keep] [--json FILE]

Runs without an analysis, and with one at the lowest and the highest event rate, are what the model is fitted
to; 40 others, of five event rates, two periods and four splits of two cores, are predicted. All processes of
the analysis keep to its cores. The work of a step is measured anew before each run, so that a machine that
becomes faster or slower meanwhile is no error of the model. The exit code is 1 where the predictions are not
what is required. Twenty minutes on two cores that have nothing else to do. With --keep what is usual of
the analysis is kept in the package, for predictions of runs that have not shown it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from benchmarks.measuring import table
from benchmarks.placing.judging import SPLITS, Model, Run, Verdict, fitted, judge
from benchmarks.placing.miniapp import work
from chimbuko.insitu.placing import usual
from chimbuko.insitu.placing.usual import Usual
from chimbuko.trace.discovery import Transport
from chimbuko.trace.tausettings import application_settings

RATES = (5_000, 50_000, 100_000, 160_000, 240_000)
"""Rows of a step of the application."""
EVERY = (1, 4)
STEP_S = 0.2
"""Of the application's work, on one core."""
STEPS, QUICK_STEPS = 64, 8
"""With 32 the same split of the same load differed by up to 18 % from one run to the next."""
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
    ranks = 1 if split in ("own", "one core", "alone 1") else 2
    analysis = {"inside": {second}, "own": {second}, "one core": {first}}
    return [first, second][:ranks], analysis.get(split, {first, second})


def _measured(plan: _Plan, step_s: float, steps: int) -> Run:
    """A run that had the machine for itself, or the last of several that had not."""
    for _ in range(TRIES):
        run, others_s = _run(plan, step_s, steps)
        seconds = run.steps * run.step_s
        if others_s <= MOST_OTHERS * seconds + UNCOUNTED_S:
            break
        print(f"{plan}: others took {others_s / seconds:.2f} cores meanwhile", file=sys.stderr)
    return run


def _run(plan: _Plan, step_s: float, steps: int) -> tuple[Run, float]:
    """One run, and the CPU time that others took meanwhile."""
    split, rows, every = plan
    loops = _calibrated(step_s)
    cores, analysis = _cores(split)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        words = [sys.executable, "-m", "benchmarks.placing.miniapp", "--result", str(folder / "result")]
        values = {"ranks": len(cores), "loops": loops, "rows": rows, "every": every, "steps": steps}
        words += [word for option, value in values.items() for word in (f"--{option}", str(value))]
        words += ["--cores", ",".join(map(str, cores))]
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
            preexec_fn=lambda: os.sched_setaffinity(0, analysis),
        )
        if done.returncode or not (folder / "result").exists():
            raise SystemExit(f"{plan}: ended with {done.returncode}\n{done.stderr}")
        found = json.loads((folder / "result").read_text())
    cpu_s = found["analysis_cpu_s"] if split in SPLITS else 0.0
    run = Run(split, len(cores), rows, every, steps, found["seconds"] / steps, cpu_s)
    return run, found["others_cpu_s"]


def _run_all(plans: Sequence[_Plan], step_s: float, steps: int, seed: int) -> list[Run]:
    """In an order of chance, so that what drifts is no split's."""
    order = random.Random(seed).sample(plans, len(plans))
    runs = []
    for number, plan in enumerate(order, start=1):
        runs.append(_measured(plan, step_s, steps))
        run = runs[-1]
        print(
            f"{number}/{len(order)} {run.split}, {run.rows:,} rows, {run.every} a step of the trace: "
            f"{run.step_s:.4f} s, analysis {run.analysis_cpu_s:.2f} CPU-s",
            file=sys.stderr,
        )
    return runs


def _report(model: Model, runs: Sequence[Run], verdict: Verdict, without: Verdict) -> None:
    rows = []
    for run in sorted(runs, key=lambda one: (one.rows, one.every, one.split)):
        predicted_s = model.predict_s(run)
        rows.append(
            (
                f"{run.rows:,}",
                str(run.every),
                run.split,
                f"{model.alone_s(run):.4f}",
                f"{run.step_s:.4f}",
                f"{predicted_s:.4f}",
                f"{100 * (predicted_s / run.step_s - 1):+.1f} %",
            )
        )
    heads = ("rows", "per trace step", "split", "alone, s", "measured, s", "predicted, s", "error")
    print(table(heads, rows))
    costs = model.costs
    print(f"\nAnalysis: {1e3 * costs.second:.1f} ms of CPU time a second, {1e3 * costs.step:.2f} ms a step")
    print(
        f"of a stream, {1e6 * costs.row:.3f} µs a row. Each of these seconds adds to the application's on the"
    )
    slower = model.slowdown
    print(
        f"same core {slower.inside:.2f} s, on all cores {slower.shared:.2f} s, on others {slower.own:.2f} s."
    )
    for name, one in (("The model", verdict), ("A model without the analysis", without)):
        text = f"greatest error {one.max_error:.1%}, R² {one.r_squared:.4f}"
        if one.added_errors:
            text += f", of added seconds {max(one.added_errors):.0%} in {len(one.added_errors)} runs"
        print(f"{name}, {one.runs} runs: {text}.")
    print(f"Splits of a load are {verdict.least_apart:.0%} to {verdict.most_apart:.0%} apart; the")
    print(f"recommended one is at most {verdict.regret:.1%} above the best that was measured.")
    for failure in verdict.failures:
        print(f"Not as required: {failure}")


def main() -> None:
    """Measure, predict and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few small runs, to try it out")
    parser.add_argument("--keep", action="store_true", help="keep what is usual in the package")
    parser.add_argument("--json", type=Path, help="write all runs there")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed")
    step_s, rates, every = STEP_S, RATES, EVERY
    if options.quick:
        step_s, rates, every = STEP_S / 5, tuple(rows // 5 for rows in RATES[1::2]), EVERY[:1]
    ends, steps = (rates[0], rates[-1]), QUICK_STEPS if options.quick else STEPS
    training = [(f"alone {ranks}", rows, 1) for ranks in (1, 2) for rows in ends]
    training += [] if options.quick else training
    training += [(split, rows, each) for split in SPLITS for rows in ends for each in every]
    fitting = _run_all(training, step_s, steps, seed=1)
    model = fitted(fitting)
    others = [(split, rows, each) for split in SPLITS for rows in rates for each in every]
    held_out = _run_all(others, step_s, steps, seed=2)
    if options.json is not None:
        lists = {"fitted": fitting, "held_out": held_out}
        everything = {name: [asdict(one) for one in runs] for name, runs in lists.items()}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(everything)))
    if options.keep:
        kept = msgspec.json.encode(Usual(model.costs, model.slowdown))
        Path(usual.__file__).with_name(usual.FILE).write_bytes(msgspec.json.format(kept) + b"\n")
    verdict, without = judge(model, held_out), judge(model, held_out, has_analysis=False)
    _report(model, held_out, verdict, without)
    if not without.failures:
        print("Not as required: a model without the analysis passes, so the runs show nothing")
    sys.exit(1 if verdict.failures or not without.failures else 0)


if __name__ == "__main__":
    main()
