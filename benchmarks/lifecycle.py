"""How long it takes to archive, import, prune and vacuum a run, by recorded call.

Run: python -m benchmarks.lifecycle [--anomalies N] [--store URL]

Each is done once to a run that is made up. Seconds are CPU time, on SQLite with all of the database's work
in them; those of a PostgreSQL server are not seen, so of copies into one the time that passed is reported.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.store import RUN, batch, record
from chimbuko.provenance.manage.archive import unpack_archive, write_archive
from chimbuko.provenance.manage.pruning import PruneRule, prune, vacuum
from chimbuko.provenance.manage.transfer import copy_run, remove_run
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import RunDirectory

AT_ONCE = 1_000
MIDDLE_US = 50_000.0
"""Half of the made-up anomalies are less severe."""


def make_run(folder: Path, anomalies: int) -> RunDirectory:
    """A run of one rank that has ended."""
    run = RunDirectory(folder)
    folder.mkdir()
    info = msgspec.structs.replace(RUN, id="made-up", state="finished", store_url=run.store_url)
    run.write_info(info)
    engine = open_for_writing(run.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    for first in range(0, anomalies, AT_ONCE):
        writer.write([batch([record(number) for number in range(first, first + AT_ONCE)], first)])
    close(engine)
    return run


def report(what: str, anomalies: int, clock: Callable[[], float], work: Callable[[], object]) -> None:
    """Do something to all calls, and print how long it took."""
    began = clock()
    work()
    seconds = clock() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{what:32} {seconds:8.2f} s  {1e6 * seconds / anomalies:7.1f} µs/call  {memory:6.0f} MB at most")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--anomalies", type=int, default=50_000)
    parser.add_argument("--store", help="URL of a PostgreSQL store, for copies into and out of it")
    options = parser.parse_args()
    n, cpu = options.anomalies, time.process_time
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder / "run", n)
        packed = folder / "run.tar.xz"
        report("archive", n, cpu, lambda: write_archive(run, packed))
        print(f"{packed.stat().st_size / run.store_path.stat().st_size:.2f} of the store's size")
        report("import", n, cpu, lambda: unpack_archive(packed, folder / "elsewhere", None, None))
        source, target = open_for_reading(run.store_url), open_for_writing(f"sqlite:///{folder / 'copy'}")
        report("copy by rows into SQLite", n, cpu, lambda: copy_run(source, "made-up", target))
        close(target)
        if options.store:
            target = open_for_writing(options.store)
            report("copy into PostgreSQL", n, time.perf_counter, lambda: copy_run(source, "made-up", target))
            report("remove it there", n, time.perf_counter, lambda: remove_run(target, "made-up"))
            target.dispose()
        source.dispose()
        engine = open_for_writing(run.store_url)
        report(
            "prune one half", n, cpu, lambda: prune(engine, "made-up", PruneRule(below_us=MIDDLE_US), False)
        )
        report("vacuum", n, cpu, lambda: vacuum(engine))
        close(engine)


if __name__ == "__main__":
    main()
