"""How good any limit per function could be that knows the functions' laws and that of the delays.

Run: python -m evaluation.oracle [--markdown]

For the functions of the scenario ``gamma``, computed, not sampled. The best limits are those beyond which
a call is delayed with a probability of half the F1 that they reach (Lipton, Elkan and Naryanaswamy 2014).
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from chimbuko.core.arrays import Float64Array
from evaluation.laws import GAMMA_SHAPES, TAIL
from evaluation.scenarios import DELAYED_SHARE, FACTORS
from evaluation.tables import ResultTable, number

SHAPES = np.linspace(*GAMMA_SHAPES, 201)
MEDIANS = stats.gamma.median(SHAPES)
SHARES = (1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-7)
"""Limits to compare, by the share of ordinary calls beyond them."""
GRID = 8000
ROUNDS = 30


def beyond(limits: Float64Array, factors: tuple[float, float]) -> tuple[Float64Array, Float64Array]:
    """Shares of all calls that are delayed, or ordinary, and beyond limits given in medians."""
    low, high = factors
    delayed = DELAYED_SHARE * np.clip((high - limits) / (high - low), 0.0, 1.0)
    return delayed, (1 - DELAYED_SHARE) * stats.gamma.sf(limits * MEDIANS, SHAPES)


def best_limits(factors: tuple[float, float]) -> Float64Array:
    """Limits in medians, one per shape, that together give the best F1 of all delays."""
    low, high = factors
    grid = np.linspace(low, high, GRID)[:, None]
    ordinary = (1 - DELAYED_SHARE) * stats.gamma.pdf(grid * MEDIANS, SHAPES) * MEDIANS
    delayed = DELAYED_SHARE / (high - low)
    is_delayed = delayed / (delayed + ordinary)
    f1 = 1.0
    limits = np.full(len(SHAPES), low)
    for _ in range(ROUNDS):
        limits = grid[np.argmax(is_delayed >= f1 / 2, axis=0), 0]
        f1 = scores(limits, factors)[2]
    return limits


def scores(limits: Float64Array, factors: tuple[float, float]) -> tuple[float, float, float, float, float]:
    """Precision, recall and F1 of all delays, and recall and F1 of those above the clean 1e-5 quantile."""
    delayed, ordinary = beyond(limits, factors)
    quantiles = stats.gamma.isf(TAIL, SHAPES) / MEDIANS
    visible = beyond(quantiles, factors)[0]
    found = beyond(np.maximum(limits, quantiles), factors)[0]
    precision = float(delayed.sum() / (delayed + ordinary).sum())
    recall = float(delayed.mean() / DELAYED_SHARE)
    recall_of_visible = float(found.sum() / visible.sum())
    return (
        precision,
        recall,
        2 * precision * recall / (precision + recall),
        recall_of_visible,
        2 * precision * recall_of_visible / (precision + recall_of_visible),
    )


def table() -> ResultTable:
    """The best limits, and limits at fixed shares of ordinary calls."""
    columns = (
        "delays",
        "limit beyond which lie",
        "precision",
        "recall",
        "F1",
        "visible recall",
        "visible F1",
    )
    rows = []
    for name, factors in FACTORS.items():
        limits = {"best for F1": best_limits(factors)}
        limits |= {f"{share:g} of the ordinary": stats.gamma.isf(share, SHAPES) / MEDIANS for share in SHARES}
        for what, chosen in limits.items():
            rows.append((name, what, *(number(value) for value in scores(chosen, factors))))
    return ResultTable("Limits that know the laws of gamma functions and of their delays", columns, rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.oracle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--markdown", action="store_true")
    print(table().markdown() if parser.parse_args().markdown else table().text())


if __name__ == "__main__":
    main()
