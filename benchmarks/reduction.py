"""Bytes of trace in against bytes stored with everything, and what the stored bytes are.

Run: python -m benchmarks.reduction [--rows N] [--rows-per-step N] [--traces FOLDER] [--json]

Whole runs (``chimbuko run --trace``) on the generated trace of one abnormal call in a thousand, and on
recorded traces: each folder under FOLDER holds the streams of one program. Stored is all that
the run leaves in its folder: the database, the report, the model, logs and settings.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.generate import SyntheticTrace, write_trace
from benchmarks.measuring import table

CPP_TRACE_BYTES = 477e6
CPP_STORED_BYTES = 73e6
"""The C++ system on a generated trace of this description, 10 million rows: its JSON with SSTD."""


@dataclass(frozen=True)
class Result:
    """What one run kept."""

    scenario: str
    trace_bytes: int
    stored_bytes: int
    calls: int
    anomalies: int
    normal_calls: int
    parts: dict[str, int]
    """Bytes of each table, of its indexes together, and of all other files together."""

    @property
    def reduction(self) -> float:
        """Bytes of trace per byte stored."""
        return self.trace_bytes / self.stored_bytes


def analyse(scenario: str, pattern: str, folder: Path) -> Result:
    """Analyse recorded streams, and weigh what is stored of them."""
    run = folder / scenario
    command = [sys.executable, "-m", "chimbuko", "run", "--trace", pattern, "--output", str(run), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    summary = json.loads(done.stdout)
    store = run / "provenance.sqlite"
    return Result(
        scenario=scenario,
        trace_bytes=summary["trace_bytes"],
        stored_bytes=summary["stored_bytes"],
        calls=summary["calls"],
        anomalies=summary["anomalies"],
        normal_calls=summary["normal_calls"],
        parts=parts_of(store) | {"files beside the store": summary["stored_bytes"] - store.stat().st_size},
    )


def parts_of(store: Path) -> dict[str, int]:
    """Bytes of the pages of each table and of all its indexes, largest first; none if SQLite cannot say."""
    with closing(sqlite3.connect(store)) as connection:
        owners = dict(connection.execute("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index'"))
        try:
            pages = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
        except sqlite3.OperationalError:
            return {}
    sizes: dict[str, int] = {}
    for name, size_bytes in pages:
        part = f"{owners[name]}, indexes" if name in owners else name
        sizes[part] = sizes.get(part, 0) + size_bytes
    return dict(sorted(sizes.items(), key=lambda part: -part[1]))


def results(rows: int, rows_per_step: int, traces: Path | None, folder: Path) -> list[Result]:
    """One result for each trace."""
    found = []
    if rows:
        generated = folder / "tau-metrics-generated-0.bp"
        write_trace(generated, SyntheticTrace(rows_per_step), rows // rows_per_step)
        found.append(analyse(f"{rows / 1e6:g} million rows", str(generated), folder))
    if traces is not None:
        scenarios = sorted({stream.parent for stream in traces.glob("*/*.bp")})
        found += [analyse(scenario.name, str(scenario / "*.bp"), folder) for scenario in scenarios]
    return found


def show(found: list[Result]) -> None:
    """As tables."""
    heads = ("trace", "MB in", "MB stored", "reduction", "anomalies", "per 1,000 calls", "bytes per record")
    rows = [
        (
            result.scenario,
            f"{result.trace_bytes / 1e6:.1f}",
            f"{result.stored_bytes / 1e6:.2f}",
            f"{result.reduction:.0f}×",
            f"{result.anomalies:,}",
            f"{1000 * result.anomalies / max(result.calls, 1):.2f}",
            f"{result.stored_bytes / max(result.anomalies + result.normal_calls, 1):,.0f}",
        )
        for result in found
    ]
    print(table(heads, rows))
    print(
        f"\nThe C++ system: {CPP_TRACE_BYTES / CPP_STORED_BYTES:.1f}× "
        f"({CPP_STORED_BYTES / 1e6:.0f} MB for {CPP_TRACE_BYTES / 1e6:.0f} MB of such a generated trace)."
    )
    for result in found:
        if result.parts:
            print(f"\n{result.scenario}, kB stored:\n")
            parts = [(name, f"{size_bytes / 1e3:,.1f}") for name, size_bytes in result.parts.items()]
            print(table(("part", "kB"), parts))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the generated trace; 0: leave it out")
    parser.add_argument("--rows-per-step", type=int, default=200_000)
    parser.add_argument("--traces", type=Path, help="folder of folders with recorded streams")
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = results(options.rows, options.rows_per_step, options.traces, Path(folder))
    if options.json:
        print(json.dumps([asdict(result) | {"reduction": result.reduction} for result in found]))
    else:
        show(found)


if __name__ == "__main__":
    main()
