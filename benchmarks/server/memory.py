"""Memory of server and broker over an hour of a run, an hour that is over in three minutes.

Run: python -m benchmarks.server.memory [--minutes M] [--json]

Twenty-five nodes of 40 ranks send the messages of an hour, 20 times as fast as they would: what grows with
messages, steps or calls grows 20 times as fast too. Memory is proportional (PSS), sampled once per minute of
the run. Its slope is a least-squares line through the samples after the first quarter: by then the broker
holds as many frames for dashboards as it ever does.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.measuring import table
from benchmarks.server.load import Load
from benchmarks.server.measure import Result, measure

LOAD = Load(25, 40)
COMPRESSION = 20
ROWS = 8
"""Of the table."""


@dataclass(frozen=True)
class Hour:
    """What was measured over a run."""

    minutes: list[float]
    server_mb: list[float]
    broker_mb: list[float]
    server_slope: float
    """MB per hour."""
    broker_slope: float


def measured(minutes: int) -> tuple[Hour, Result]:
    """The memory of so many minutes of a run."""
    result, samples = measure(LOAD, 60 * minutes, 1 / COMPRESSION, are_few_real=True, sample_periods=60)
    at = np.array([(sample.at_s - samples[0].at_s) * COMPRESSION / 60 for sample in samples])
    server = np.array([sample.server_mb for sample in samples])
    broker = np.array([sample.broker_mb for sample in samples])
    is_settled = at >= minutes / 4
    slopes = [60 * float(np.polyfit(at[is_settled], mb[is_settled], 1)[0]) for mb in (server, broker)]
    return Hour(at.tolist(), server.tolist(), broker.tolist(), *slopes), result


def as_table(hour: Hour) -> str:
    """Some of the samples."""
    rows: list[tuple[str, ...]] = [
        (f"{hour.minutes[at]:.0f}", f"{hour.server_mb[at]:.1f}", f"{hour.broker_mb[at]:.1f}")
        for at in np.unique(np.linspace(0, len(hour.minutes) - 1, ROWS).astype(int)).tolist()
    ]
    rows.append(("MB per hour", f"{hour.server_slope:+.1f}", f"{hour.broker_slope:+.1f}"))
    return table(("minute", "server MB", "broker MB"), rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=int, default=60, help="of the simulated run")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    hour, result = measured(options.minutes)
    if options.json:
        print(json.dumps({"hour": asdict(hour), "run": result.as_json()}, indent=1))
        return
    print(
        f"{result.messages:,} messages of {result.ranks:,} ranks, "
        f"{result.put_off:,} put off, {result.lost_messages} lost"
    )
    print(as_table(hour))


if __name__ == "__main__":
    main()
