"""Several stacks on one thread, and functions of equal names: what looks alike is told apart."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from chimbuko.core.pauses import Pause
from chimbuko.instrument.hooks.codes import FOUND, SWITCHED
from chimbuko.instrument.hooks.functions import SourceFiles
from chimbuko.instrument.tracer.chunks import SEND, ThreadRows
from chimbuko.instrument.tracer.steps import LONGEST_UNWINDING_NS, LaneSwitches, settled
from tests.instrument.tracer.test_children import streams
from tests.instrument.tracer.test_steps import Row, entry, leave, packed
from tests.instrument.tracer.traced_program import run_traced, write_program

GREENLETS = """
    from greenlet import getcurrent, greenlet

    def leaf(): pass

    def talk(n):
        if n: talk(n - 1)
        other = greenlets[greenlets[0] is getcurrent()]
        if not other.dead: other.switch()
        leaf()

    def run():
        for _ in range(3): talk(1 + (getcurrent() is greenlets[0]))

    for _ in range(2):
        greenlets = [greenlet(run), greenlet(run)]
        for one in greenlets:
            while not one.dead: one.switch()
"""


def test_each_greenlet_is_a_lane_and_lanes_are_used_again(tmp_path: Path) -> None:
    pytest.importorskip("greenlet")
    done = run_traced(write_program(tmp_path, GREENLETS))
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(tmp_path).values()
    # That each EXIT is that of the last ENTRY of its lane is asserted as the calls are put together.
    counts = stream.counts()
    assert (counts["run"], counts["talk"]) == (4, 30)
    assert len({call.thread for call in stream.calls() if call.name == "run"}) == 2
    assert stream.open_timers() == []


def rows_of(thread: int, events: list[Row], comms: list[Row] | None = None) -> ThreadRows:
    return ThreadRows(thread, packed(events), packed(comms or []), b"")


def test_rows_behind_a_switch_are_those_of_its_lane() -> None:
    switches = LaneSwitches()
    first = rows_of(
        0, [entry(1, 1), (SWITCHED - 7, 2), entry(2, 3)], [(SEND, 0, 0, 8, 1), (SEND, 0, 0, 8, 3)]
    )
    second = rows_of(0, [leave(2, 4), (SWITCHED, 5), leave(1, 6)])
    plain = rows_of(3, [entry(4, 1)])
    divided = [*switches.divided([first, plain]), *switches.divided([second])]
    assert [(rows.thread, rows.events) for rows in divided] == [
        (0, packed([entry(1, 1)])),
        (7, packed([entry(2, 3)])),
        (3, plain.events),
        (0, packed([leave(1, 6)])),
        (7, packed([leave(2, 4)])),
    ]
    assert [len(rows.comms) for rows in divided] == [40, 40, 0, 0, 0]


@pytest.mark.parametrize(
    ("gap_ns", "expected"),
    [
        (1, [leave(6, 9), entry(7, 10)]),
        (LONGEST_UNWINDING_NS + 1, [leave(6, 9), leave(5, 9), entry(5, 0), entry(7, 0)]),
    ],
)
def test_calls_around_a_time_without_a_hook_end_before_it_or_go_on(gap_ns: int, expected: list[Row]) -> None:
    now = 9 + gap_ns
    events = np.array([entry(6, 9), (FOUND - 2, now), entry(5, now), entry(7, now), leave(7, now + 1)])
    found = settled(events, [0, 5], 8, base=1).tolist()
    wanted = [(code, now if code & 1 == 0 else time) for code, time in expected]
    assert found == [list(row) for row in (entry(6, 9), *wanted, leave(7, now + 1))]


def name_in(files: SourceFiles, module: str, file: str, is_loaded: bool = True) -> str:
    code = compile("def step():\n  pass", file, "exec").co_consts[0]
    made = type(sys)(module)
    if is_loaded:
        sys.modules[module] = made
    try:
        return files.function_name(code, vars(made))
    finally:
        sys.modules.pop(module, None)


def test_functions_of_equal_names_and_files_have_names_of_their_own() -> None:
    files = SourceFiles("/home/me/app")
    assert name_in(files, "fast.model", "/opt/lib/fast/model.py") == "step [{fast/model.py}{1}]"
    assert name_in(files, "slow.model", "/opt/lib/slow/model.py") == "step [{slow/model.py}{1}]"
    assert name_in(files, "slow", "/opt/lib/slow/__init__.py") == "step [{slow/__init__.py}{1}]"
    assert name_in(files, "run", "/home/me/app/run.py", is_loaded=False) == "step [{run.py}{1}]"
    # Plugins that are loaded under one name.
    assert name_in(files, "plugin", "/opt/a/plugin.py") == "step [{plugin.py}{1}]"
    assert name_in(files, "plugin", "/opt/b/plugin.py") == "step [{/opt/b/plugin.py}{1}]"
    assert name_in(files, "plugin", "/home/me/app/a/plugin.py", is_loaded=False) == "step [{a/plugin.py}{1}]"


TASKS = """
    import asyncio, time

    def leaf(): pass

    async def fetch(name):
        leaf()
        await asyncio.sleep(0.05 if name == "slow" else 0.001)
        leaf()

    async def stubborn():
        for _ in range(2):
            try: await asyncio.sleep(5)
            except asyncio.CancelledError: leaf()

    async def outer():
        await stubborn()
        await asyncio.sleep(0)
        await fetch("after")

    async def numbers():
        for number in range(2):
            await asyncio.sleep(0)
            yield number

    async def serve():
        for name in ("fast", "slow", "fast"): await fetch(name)
        async for _ in numbers(): leaf()

    async def main():
        task = asyncio.create_task(outer())
        for _ in range(2):
            await asyncio.sleep(0.01)
            task.cancel()
        await task
        try: await asyncio.wait_for(asyncio.sleep(5), 0.01)
        except TimeoutError: leaf()
        await asyncio.gather(serve(), serve())

    asyncio.run(main())
    time.sleep(0.1)
"""


def test_a_coroutine_is_one_call_in_the_lane_of_its_task_and_awaits_are_named(tmp_path: Path) -> None:
    done = run_traced(write_program(tmp_path, TASKS))
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(tmp_path).values()
    counts = stream.counts()
    once = {"main": 1, "outer": 1, "stubborn": 1, "serve": 2, "fetch": 7}
    assert {name: counts[name] for name in once} == once
    assert counts["leaf"] == 2 * 7 + 2 + 4 + 1
    calls = [call for call in stream.calls() if call.name not in ("<module>", ".TAU application")]
    lanes = {
        name: {call.thread for call in calls if call.name == name} for name in ("main", "outer", "serve")
    }
    assert 0 not in {call.thread for call in calls}
    assert len(lanes["serve"]) == 2 and lanes["main"].isdisjoint(lanes["outer"])
    awaited = [call for call in calls if call.name == "await sleep in program.fetch"]
    assert sorted(call.exit_us - call.entry_us > 50_000 for call in awaited) == [False] * 5 + [True] * 2
    assert counts["await sleep in program.stubborn"] == 2
    assert counts["await outer in program.main"] == 1 and counts["await wait_for in program.main"] >= 1
    assert stream.open_timers() == []


HELD_LOOP = """
    import asyncio, time

    def compute(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end: pass

    async def hold():
        await asyncio.sleep(0.01)
        compute(0.1)

    async def wait(): await asyncio.sleep(0.02)

    async def main(): await asyncio.gather(hold(), wait(), wait())

    asyncio.run(main())
    asyncio.run(wait())
"""


def test_tasks_say_who_kept_the_event_loop_from_them(tmp_path: Path) -> None:
    done = run_traced(write_program(tmp_path, HELD_LOOP))
    assert (done.returncode, done.stderr) == (0, "")
    (stream,) = streams(tmp_path).values()
    wanted = Pause.LOOP.counter("program.hold")
    told = [row for row in stream.counters if stream.names.counters[row[3]] == wanted]
    # The last one is of a loop of its own.
    waits = sorted(
        (call for call in stream.calls() if call.name == "await sleep in program.wait"),
        key=lambda call: call.entry_us,
    )
    assert len(waits) == 3 and len(told) >= 2
    for call in waits[:2]:
        own = [int(row[4]) for row in told if row[2] == call.thread and call.entry_us < row[5] < call.exit_us]
        assert len(own) == 1 and 90_000 <= own[0] <= call.exit_us - call.entry_us
