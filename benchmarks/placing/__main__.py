"""Is it true what the model says of where the analysis runs? Real runs of a mini-application, predicted.

Run: python -m benchmarks.placing [--quick] [--json FILE]

Some runs without an analysis, and a few with one, are what the model is fitted to; 40 others, of five event
rates, two periods and four splits of two cores, are predicted. The exit code is 1 where the predictions are
not what is required. Twelve minutes on two cores that have nothing else to do.
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
from chimbuko.trace.discovery import Transport
from chimbuko.trace.tausettings import application_settings

RATES = (5_000, 50_000, 100_000, 160_000, 240_000)
"""Rows of a step of the application."""
EVERY = (1, 4)
STEP_S = 0.2
"""Of the application's work, on one core."""
STEPS, QUICK_STEPS = 24, 8
LIMIT_S = 300.0
_ROOT = Path(__file__).resolve().parents[2]
_Plan = tuple[str, int, int]
"""Split, rows, and steps of the application in one of the trace."""


def _calibrated() -> int:
    """Loops of ``STEP_S``."""
    took_s = []
    for _ in range(5):
        began_s = time.process_time()
        work(20_000)
        took_s.append(time.process_time() - began_s)
    return round(20_000 * STEP_S / min(took_s))


def _cores(split: str) -> tuple[list[int], str]:
    """Of the ranks, and of the analysis."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    ranks = 1 if split in ("own", "one core", "alone 1") else 2
    analysis = {"inside": f"{second}", "own": f"{second}", "one core": f"{first}"}
    return [first, second][:ranks], analysis.get(split, "")


def _measured(plan: _Plan, loops: int, steps: int) -> Run:
    split, rows, every = plan
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
            own += ["--cores", analysis] if analysis else []
            words = [sys.executable, "-m", "chimbuko", *own, "--", *words]
        else:
            streams = folder / "streams"
            streams.mkdir()
            environment |= application_settings(folder, streams, 10**6, os.environ, Transport.FILES)
        done = subprocess.run(
            words, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
        if done.returncode or not (folder / "result").exists():
            raise SystemExit(f"{plan}: ended with {done.returncode}\n{done.stderr}")
        found = json.loads((folder / "result").read_text())
    cpu_s = found["analysis_cpu_s"] if split in SPLITS else 0.0
    return Run(split, len(cores), rows, every, steps, found["seconds"] / steps, cpu_s)


def _run_all(plans: Sequence[_Plan], loops: int, steps: int, seed: int) -> list[Run]:
    """In an order of chance, so that what drifts is no split's."""
    order = random.Random(seed).sample(plans, len(plans))
    runs = []
    for number, plan in enumerate(order, start=1):
        runs.append(_measured(plan, loops, steps))
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
    print(f"of a stream, {1e6 * costs.row:.3f} µs a row.")
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
    parser.add_argument("--json", type=Path, help="write all runs there")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed")
    loops, rates, every = _calibrated(), RATES, EVERY
    if options.quick:
        loops, rates, every = loops // 5, tuple(rows // 5 for rows in RATES[1::2]), EVERY[:1]
    ends, steps = (rates[0], rates[-1]), QUICK_STEPS if options.quick else STEPS
    training = [(f"alone {ranks}", rows, 1) for ranks in (1, 2) for rows in ends]
    training += [] if options.quick else training
    training += [("shared", rows, each) for rows in ends for each in every]
    fitting = _run_all(training, loops, steps, seed=1)
    model = fitted(fitting)
    others = [(split, rows, each) for split in SPLITS for rows in rates for each in every]
    held_out = _run_all(others, loops, steps, seed=2)
    if options.json is not None:
        lists = {"fitted": fitting, "held_out": held_out}
        everything = {name: [asdict(one) for one in runs] for name, runs in lists.items()}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(everything)))
    verdict, without = judge(model, held_out), judge(model, held_out, has_analysis=False)
    _report(model, held_out, verdict, without)
    if not without.failures:
        print("Not as required: a model without the analysis passes, so the runs show nothing")
    sys.exit(1 if verdict.failures or not without.failures else 0)


if __name__ == "__main__":
    main()
