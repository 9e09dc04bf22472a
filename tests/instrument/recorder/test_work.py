"""What a thread did in calls that take long, counted by the recorder."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from chimbuko.causes.evidence.flag import Work
from chimbuko.core.traceschema import EventType
from tests.instrument.recorder.streams import Stream, record
from tests.instrument.recorder.test_functions import compiled

PROGRAM = """
#define _GNU_SOURCE
#include <chimbuko.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static void compute(double ms)
{
    struct timespec now;
    double end = 0;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        if (end == 0) end = 1e3 * now.tv_sec + 1e-6 * now.tv_nsec + ms;
    } while (1e3 * now.tv_sec + 1e-6 * now.tv_nsec < end);
}
int main(int words, char **given)
{
    /* A program that closes what it does not know, and opens other files in its place. */
    for (int file = 3; words > 1 && file < 2000; file++) close(file);
    chimbuko_begin("outer");
    for (int call = 0; call < 3; call++) {
        chimbuko_begin("compute"); compute(20); chimbuko_end("compute");
        chimbuko_begin("rest"); usleep(20000); chimbuko_end("rest");
        chimbuko_begin("touch");
        memset(malloc(64 << 20), 1, 64 << 20);
        chimbuko_end("touch");
        for (int small = 0; small < 100; small++) {
            chimbuko_begin("small"); chimbuko_end("small");
        }
        if (words > 1 && call == 0) for (int file = 3; file < 2000; file++) close(file);
    }
    chimbuko_end("outer");
    return given == NULL;
}
"""


def counted(stream: Stream) -> dict[str, dict[Work, list[int]]]:
    """Counts by the innermost open call."""
    found: dict[str, dict[Work, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in stream.work.tolist():
        # A counter at the time of an event was written before that.
        before = stream.events[(stream.events[:, 2] == row[2]) & (stream.events[:, 5] < row[5])]
        open_calls: list[str] = []
        for event in before.tolist():
            if event[3] == EventType.ENTRY:
                open_calls.append(stream.function(event[4]))
            else:
                open_calls.pop()
        found[open_calls[-1]][Work(stream.names.counters[row[3]])].append(row[4])
    return found


def test_what_calls_did_that_took_long(tmp_path: Path) -> None:
    (tmp_path / "work.c").write_text(PROGRAM)
    program = compiled(tmp_path / "work.c", tmp_path / "work")
    (stream,) = record(tmp_path, [program], CHIMBUKO_RECORDER_EVENTS="software")
    work = counted(stream)
    assert all(us >= 18_000 for us in work["compute"][Work.CPU_TIME]) and "small" not in work
    assert len(work["compute"][Work.CPU_TIME]) == 3
    assert max(work["rest"][Work.CPU_TIME], default=0) < 10_000
    assert max(work["touch"][Work.FAULTS]) > 100
    # Here instructions are the kernel's task clock, in ns.
    for clock_ns, cpu_us in zip(
        work["compute"][Work.INSTRUCTIONS], work["compute"][Work.CPU_TIME], strict=True
    ):
        assert 0.5 < clock_ns / (1000 * cpu_us) < 2.0
    assert not len(stream.counters)


def test_a_program_that_closes_all_files_is_counted_without_them(tmp_path: Path) -> None:
    (tmp_path / "work.c").write_text(PROGRAM)
    program = compiled(tmp_path / "work.c", tmp_path / "work")
    (stream,) = record(tmp_path, [program, "close"], CHIMBUKO_RECORDER_EVENTS="software")
    work = counted(stream)
    assert len(work["compute"][Work.CPU_TIME]) == 3 and len(work["compute"][Work.INSTRUCTIONS]) == 1
