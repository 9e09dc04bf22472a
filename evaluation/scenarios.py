"""Statistical scenarios: 100 functions of one law each, clean, and with delayed calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from chimbuko.core.arrays import Float64Array, Int64Array
from evaluation.labelled import LabelledRun, Workload, lay_out
from evaluation.laws import SHORT_MEDIANS_US, TAIL, LawMaker, RuntimeLaw, gamma, log_normal, two_modes

FUNCTIONS = 100
CALLS = 10_000
"""Per function."""
RANKS = 4
DELAYED_SHARE = 0.001
FACTORS = {"5-20x": (5.0, 20.0), "2-6x": (2.0, 6.0)}
CLEAN = "clean"
VARIANTS = (CLEAN, *FACTORS)
DRIFT_PER_CALL = 0.01 / 100
MOST_DRIFT = 2.0
REPEATS = (2, 5, 10)
"""Identical outliers per function, in turn."""
YOUNG_CALLS = (20, 100)
YOUNG_FUNCTIONS = 1000
"""More than elsewhere: of 100 functions' calls one in a thousand would be six."""
YOUNG_PHASES = 10
"""Functions of a phase are all young at the same time."""


SHORT = "gamma, below 1 ms"
"""Shown, but nothing is required of it: most of its delays are shorter than what counts by default."""


@dataclass(frozen=True)
class Scenario:
    """Functions of one kind."""

    name: str
    law: LawMaker
    functions: int = FUNCTIONS
    calls: tuple[int, int] = (CALLS, CALLS)
    """Per function, at least and at most."""
    phases: int = 1
    drift_per_call: float = 0.0
    repeats: tuple[int, ...] = ()
    """Where given, a function's outliers are all alike, and so many."""
    variants: tuple[str, ...] = VARIANTS

    def scaled(self, share: float) -> Scenario:
        """The same with a share of the functions."""
        return replace(self, functions=max(round(share * self.functions), 1))


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("gamma", gamma),
        Scenario("log-normal 0.3", partial(log_normal, sigma=0.3)),
        Scenario("log-normal 0.6", partial(log_normal, sigma=0.6)),
        Scenario("log-normal 1.0", partial(log_normal, sigma=1.0)),
        Scenario("two modes 50/50", partial(two_modes, second_weight=0.5)),
        Scenario("two modes 95/5", partial(two_modes, second_weight=0.05)),
        Scenario("drift", gamma, drift_per_call=DRIFT_PER_CALL),
        Scenario("repeats", gamma, repeats=REPEATS, variants=tuple(FACTORS)),
        Scenario("young", gamma, YOUNG_FUNCTIONS, YOUNG_CALLS, YOUNG_PHASES),
        Scenario(SHORT, partial(gamma, medians_us=SHORT_MEDIANS_US)),
    )
}


def make_run(scenario: Scenario, variant: str, seed: int) -> LabelledRun:
    """The same for the same arguments."""
    random = np.random.default_rng([seed, *f"{scenario.name} {variant}".encode()])
    parts = [_function(scenario, variant, number, random) for number in range(scenario.functions)]
    begins = [_begins(scenario, number, len(part[0]), random) for number, part in enumerate(parts)]
    order = np.argsort(np.concatenate(begins))
    counts = [len(part[0]) for part in parts]
    runtime_us, factor, median_us, quantile_us = (
        np.concatenate([part[column] for part in parts])[order] for column in range(4)
    )
    work = Workload(
        function=np.repeat(np.arange(scenario.functions), counts)[order],
        runtime_us=runtime_us,
        factor=factor,
        median_us=median_us,
        quantile_us=quantile_us,
    )
    names = [f"stage_{number:03} [{{solver.c}} {{{10 * number},0}}]" for number in range(scenario.functions)]
    return lay_out(work, names, RANKS, random)


def _function(
    scenario: Scenario, variant: str, number: int, random: np.random.Generator
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """Calls of one function in order: runtime, factor, mode's median and 1e-5 quantile."""
    law: RuntimeLaw = scenario.law(random)
    count = int(random.integers(scenario.calls[0], scenario.calls[1], endpoint=True))
    runtime_us, median_us = law.sample(random, count)
    drift = np.minimum(1.0 + scenario.drift_per_call * np.arange(count), MOST_DRIFT)
    runtime_us *= drift
    median_us *= drift
    factor = np.zeros(count)
    if variant != CLEAN:
        delayed = _delayed(scenario, number, count, random)
        draws = 1 if scenario.repeats else len(delayed)
        factor[delayed] = random.uniform(*FACTORS[variant], draws)
        runtime_us[delayed] = factor[delayed] * median_us[delayed]
    return runtime_us, factor, median_us, drift * law.upper_quantile_us(TAIL)


def _delayed(scenario: Scenario, number: int, count: int, random: np.random.Generator) -> Int64Array:
    """Which calls are delayed."""
    if scenario.repeats:
        return random.choice(count, scenario.repeats[number % len(scenario.repeats)], replace=False)
    return np.flatnonzero(random.random(count) < DELAYED_SHARE)


def _begins(scenario: Scenario, number: int, count: int, random: np.random.Generator) -> Float64Array:
    """Where in the run the calls of a function stand, ascending, from 0 to the number of phases."""
    return number * scenario.phases // scenario.functions + np.sort(random.random(count))
