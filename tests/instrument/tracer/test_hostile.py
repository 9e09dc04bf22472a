"""Programs drawn from a seed that do what makes calls hard to follow: each call of theirs is on record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.instrument.tracer.test_newer_python import children
from tests.newerpython import newer_python
from tests.thorough import first

HOSTILE = """
    import asyncio, json, random, threading
    from collections import Counter

    made = Counter()

    def leaf():
        made["leaf"] += 1

    def fail():
        made["fail"] += 1
        raise KeyError

    def climb(n):
        made["climb"] += 1
        if n: climb(n - 1)
        else: leaf()

    def fall(n): return fall(n + 1)

    def inner(draw):
        for number in range(draw.randrange(3)):
            yield number

    def outer(draw):
        yield from inner(draw)
        leaf()

    async def numbers(draw):
        try:
            for number in range(draw.randrange(3)):
                await asyncio.sleep(draw.choice([0, 0.0005]))
                yield number
        finally:
            leaf()

    async def stubborn(draw):
        made["stubborn"] += 1
        for _ in range(2):
            try: await asyncio.sleep(draw.choice([0, 0.001, 0.05]))
            except asyncio.CancelledError: leaf()

    async def failing(draw):
        made["failing"] += 1
        await asyncio.sleep(draw.choice([0, 0.001]))
        fail()

    async def node(draw, depth):
        made["node"] += 1
        for _ in range(draw.randrange(1, 4)):
            await actions[draw.randrange(5 if depth == 0 else len(actions))](draw, depth - 1)

    async def plain(draw, depth):
        climb(draw.randrange(5))
        try: fail()
        except KeyError: leaf()

    async def generators(draw, depth):
        for _ in outer(draw): leaf()
        async for _ in numbers(draw): leaf()

    async def limit(draw, depth):
        # What Python 3.11 calls while it handles the error is not recorded, which the summary says.
        try: fall(0)
        except RecursionError: pass
        leaf()

    async def cancelled(draw, depth):
        task = asyncio.create_task(stubborn(draw))
        await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task])

    async def nothing(draw, depth):
        await asyncio.sleep(0)

    async def timed(draw, depth):
        try: await asyncio.wait_for(node(draw, depth), 0.003)
        except (TimeoutError, KeyError): leaf()

    async def together(draw, depth):
        await asyncio.gather(node(draw, depth), node(draw, depth), return_exceptions=True)

    async def group(draw, depth):
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(node(draw, depth))
                tasks.create_task(failing(draw))
        except* KeyError:
            leaf()

    actions = [plain, generators, limit, cancelled, nothing, timed, together, group]

    async def main(draw):
        for _ in range(8): await node(draw, 3)

    def work(seed): asyncio.run(main(random.Random(seed)))

    threads = [threading.Thread(target=work, args=(SEED + n,)) for n in (1, 2)]
    for thread in threads: thread.start()
    work(SEED)
    for thread in threads: thread.join()
    with open("truth.json", "a") as file: file.write(json.dumps(made) + chr(10))
"""


@pytest.mark.parametrize("seed", first(1, range(0, 300, 10)))
def test_no_call_is_lost(tmp_path: Path, seed: int) -> None:
    pythons = [sys.executable]
    if seed % 20 == 0:
        pythons.append(newer_python())
    found = children(tmp_path, HOSTILE.replace("SEED", str(seed)), pythons)
    truths = [json.loads(line) for line in (tmp_path / "truth.json").read_text().splitlines()]
    for stream, truth in zip(found, truths, strict=True):
        # That each EXIT is that of the last ENTRY of its lane is asserted as the calls are put together.
        counts = stream.counts()
        plain = {name: number for name, number in truth.items() if name in ("leaf", "fail", "climb")}
        assert {name: counts[name] for name in plain} == plain
        # One that is cancelled before it begins is a call, too, of no length.
        assert all(counts[name] >= number for name, number in truth.items())
        assert stream.open_timers() == []
