"""Workers that their parent ends by SIGTERM: what they did is recorded, and they end as without us."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instrument.tracer.test_children import streams, traced
from tests.thorough import first

POOL = """
    import multiprocessing, os, signal, time
    from chimbuko import tracer

    @tracer.traced
    def annotated(n):
        time.sleep(0.001)
        return n

    if __name__ == "__main__":
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            processes = list(pool._pool)
            print(sum(pool.map(annotated, range({calls}), chunksize=1)))
        for process in processes: process.join()
        assert {{process.exitcode for process in processes}} <= {{0, -signal.SIGTERM}}
"""

STUCK = """
    import ctypes, multiprocessing, time

    def stuck():
        # It holds Python's lock, and a signal's handler has to wait for it.
        ctypes.PyDLL(None).usleep(1_000_000_000)

    process = multiprocessing.get_context("fork").Process(target=stuck)
    process.start()
    time.sleep(0.5)
    process.terminate()
    process.join()
"""


@pytest.mark.parametrize("method", first(1, ["forkserver", "fork", "spawn"]))
@pytest.mark.parametrize(
    ("options", "calls"), [((), 100), (("--annotated-only",), 100), (("--annotated-only",), 4)]
)
def test_the_last_calls_of_workers_that_are_terminated_are_recorded(
    tmp_path: Path, method: str, options: tuple[str, ...], calls: int
) -> None:
    traced(tmp_path, POOL.format(method=method, calls=calls), *options)
    assert sum(stream.counts()["annotated"] for stream in streams(tmp_path).values()) == calls


def test_a_worker_that_is_stuck_is_ended_all_the_same(tmp_path: Path) -> None:
    traced(tmp_path, STUCK)


FORKED = """
    import os, threading, time

    def work(): time.sleep(0.3)

    if os.fork() == 0:
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
        work()
        os._exit(0)
    os.wait()
"""


def test_the_main_thread_of_a_forked_worker_is_known_by_its_id(tmp_path: Path) -> None:
    """The stream of a child begins in a thread of ours: samples of nodes would be those of that one."""
    traced(tmp_path, FORKED)
    for stream in streams(tmp_path).values():
        described = {key: value for (_, thread, key), value in stream.names.metadata.items() if thread == 0}
        assert described["tid"] == described["pid"]
        # Samples of a thread without calls would be time of the trace in which nobody computes.
        assert not {thread for _, thread, key in stream.names.metadata if key == "tid"} - {0}
