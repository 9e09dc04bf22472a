"""Detection quality: precision, recall and F1 per detector and scenario, against known truth.

Run: python -m benchmarks.detection [--detectors NAME ...] [--scenarios NAME ...] [--seeds N ...]

Without options: the default detector in all scenarios, seeds 1 to 5. Exit code 1 if the default
detector misses one of its requirements.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import msgspec

from benchmarks.detection import requirements, statistical
from benchmarks.detection.scenarios import SCENARIOS
from benchmarks.detection.statistical import Case, Measured
from chimbuko.config import AnalysisConfig

DEFAULT = AnalysisConfig()
SEEDS = (1, 2, 3, 4, 5)
QUICK_SHARE = 0.25
"""Of the functions of each scenario."""


def main() -> int:
    """Measure and judge."""
    options = _options()
    cases = [
        Case(
            scenario.scaled(QUICK_SHARE) if options.quick else scenario,
            variant,
            seed,
            msgspec.structs.replace(DEFAULT, detector=detector),
        )
        for detector in options.detectors
        for scenario in (SCENARIOS[name] for name in options.scenarios)
        for variant in scenario.variants
        for seed in ((1,) if options.quick else options.seeds)
    ]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        measured = list(statistical.measure(cases, pool))
    of_default = [one for one in measured if one.detector == DEFAULT.detector]
    required = requirements.statistical(of_default) if of_default else []
    _print(options, measured, required)
    return 0 if all(one.is_met for one in required) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.detection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--detectors", nargs="+", default=[DEFAULT.detector], metavar="NAME")
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=SCENARIOS, metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, metavar="N")
    parser.add_argument("--quick", action="store_true", help="a quarter of the functions, seed 1 only")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def _print(
    options: argparse.Namespace, measured: list[Measured], required: list[requirements.Requirement]
) -> None:
    if options.json:
        json.dump([one.as_json() for one in measured], sys.stdout, indent=1)
        print()
        return
    for table in (statistical.table(measured), requirements.table(required)):
        print(table.markdown() if options.markdown else table.text(), end="\n\n")


if __name__ == "__main__":
    sys.exit(main())
