"""Beside a real TAU: what is found of known delays, what is lost, and what the application pays.

Run: python -m benchmarks.live [--transport files|sst] [--rounds N] [--ranks N] [--seconds S] [--recorder]
     [--json]

Compiles examples/heat_mpi.c and runs it under tau_exec: without the analysis, with it over each transport,
and once more with its agent and readers killed with -9 at random moments; with --recorder also under our
recorder. The rounds are interleaved, so that what else the machine does meets all variants. A delay is found
if a flagged call of the same rank and function contains it, within 2 ms. The exit code is 0 if the aims are
met, 1 if not, and 3 where there is no TAU or no MPI.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.live.aims import HEADS, Outcome, Variant, missed_aims, report, rows, total
from benchmarks.live.trial import Program, build, run_alone, run_beside, what_is_missing
from benchmarks.measuring import table

TRANSPORTS = ("files", "sst")
MISSED, CANNOT_RUN = 1, 3


def main() -> int:
    """Run all variants; the exit code."""
    options = _parse()
    if reason := what_is_missing():
        print(reason, file=sys.stderr)
        return CANNOT_RUN
    variants = [Variant("")]
    for transport in options.transport or TRANSPORTS:
        variants += [Variant(transport), Variant(transport, is_killed=True)]
        variants += [Variant(transport, is_recorded=True)] if options.recorder else []
    if options.undisturbed:
        variants = [variant for variant in variants if not variant.is_killed]
    outcomes = _run(variants, options)
    totals = [total(outcomes[variant]) for variant in variants]
    missed = [line for v, result in zip(variants, totals, strict=True) for line in missed_aims(v, result)]
    if options.json:
        print(json.dumps(report(totals, missed), indent=2))
    else:
        print(
            f"{options.ranks} ranks, {options.seconds:g} s, {options.delays} delays of 20 to 200 ms a run; ",
            end="",
        )
        print(f"{options.rounds} rounds, seed {options.seed}\n")
        print(table(HEADS, rows(totals)))
        for line in missed or ["All aims are met."]:
            print(line)
    return MISSED if missed else 0


def _run(variants: list[Variant], options: argparse.Namespace) -> dict[Variant, list[Outcome]]:
    outcomes: dict[Variant, list[Outcome]] = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory(prefix="chimbuko-live-") as scratch:
        executable = build(Path(scratch))
        program = Program(executable, options.ranks, options.seconds, options.delays, options.period)
        for turn in range(options.rounds):
            for number, variant in enumerate(variants):
                folder = Path(scratch) / f"{turn}-{number}"
                seed = options.seed + turn
                if variant.transport:
                    outcome = run_beside(program, variant, folder, seed)
                else:
                    outcome = run_alone(program, folder, seed)
                outcomes[variant].append(outcome)
                found = f", {outcome.found} of {outcome.delays} found" if variant.transport else ""
                print(f"round {turn + 1}, {variant.name}: {outcome.wall_s:.1f} s{found}", file=sys.stderr)
    return outcomes


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--transport", action="append", choices=TRANSPORTS, help="only this one")
    parser.add_argument("--undisturbed", action="store_true", help="kill nothing")
    parser.add_argument("--recorder", action="store_true", help="also under our recorder in place of TAU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0, help="nominal length of the program")
    parser.add_argument("--delays", type=int, default=20, help="of each run, over all ranks")
    parser.add_argument("--period", type=float, default=1.0, help="seconds between two steps of the trace")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
