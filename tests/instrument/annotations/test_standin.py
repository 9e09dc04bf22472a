"""Programs that are annotated for PerfFlowAspect run unchanged: they have our annotations for its package."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.instrument.tracer.traced_program import read_whole, run_traced, write_program

PROGRAM = """
    import subprocess, sys
    import perfflowaspect
    import perfflowaspect.aspect
    from perfflowaspect import aspect
    from perfflowaspect.aspect import critical_path

    @perfflowaspect.aspect.critical_path(pointcut="around")
    def in_full(): pass

    @aspect.critical_path()
    def imported(): pass

    @critical_path(pointcut="before_async", scope="net")
    def asynchronous(): pass

    @critical_path("around_async_typo")
    def wrongly_annotated(): print("runs")

    def other(): pass

    if __name__ == "__main__":
        aspect.sync_event("before", "block", "main")
        in_full(), imported(), asynchronous(), wrongly_annotated(), other()
        aspect.sync_event("after", "block", "main")
        subprocess.run([sys.executable, "-c", "import program; program.in_full()"], check=True)
"""


def test_an_unchanged_program(tmp_path: Path) -> None:
    # Their package is installed as well.
    write_program(tmp_path, "raise ImportError", "perfflowaspect.py")
    program = write_program(tmp_path, PROGRAM)
    done = run_traced(program, "--annotated-only", PERFFLOW_OPTIONS="log-event=compact")
    complaints = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert len(complaints) == 2, "of the program, and of its child"
    for complaint in complaints:
        assert "not 'around_async_typo'; the function is not annotated" in complaint
    events = [event for path in tmp_path.glob("*.pfw") for event in json.loads(path.read_text())]
    assert Counter((event["name"], event["ph"]) for event in events) == {
        ("in_full", "X"): 2,
        ("imported", "X"): 1,
        ("asynchronous", "b"): 1,
        ("block", "B"): 1,
        ("block", "E"): 1,
    }
    # Of the child, which has ended at once, there may be no stream.
    own = read_whole(tmp_path / "tau-metrics-program-0.bp").counts()
    assert own == {".TAU application": 1, "in_full": 1, "imported": 1, "asynchronous": 1, "block": 1}
