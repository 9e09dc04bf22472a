"""How fast the services of a run take in the agents of many nodes, and see all of them out.

Run: python -m benchmarks.joins [--agents 9000] [--processes 8]

Services are those of ``chimbuko serve``. Light clients stand for the agents: each opens a connection of its
own, as an agent does, and another one where it is refused; reports as often as an agent that it is there; and
says that it is done when the run ends. Each comes at a moment of chance, as job scripts have it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from redis.connection import parse_url
from redis.exceptions import TimeoutError

from benchmarks.server.wire import command
from chimbuko.launcher.jobs.script import JOINS_PER_S
from chimbuko.runtime.protocol.membership import TO_END, Answer, report_in_s
from chimbuko.runtime.protocol.runbroker import RunBroker, RunKeys
from chimbuko.runtime.runs.directory import RunDirectory

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
LONGEST_S = 300.0


class Place(NamedTuple):
    """Where the broker is, and what lets one in."""

    host: str
    port: int
    user: str
    password: str
    certificate: str


def place_of(url: str) -> Place:
    """The place in a broker's URL."""
    found = parse_url(url)  # type: ignore[no-untyped-call]
    return Place(*(found[name] for name in ("host", "port", "username", "password", "ssl_ca_data")))


async def be_agent(place: Place, context: ssl.SSLContext, keys: RunKeys, name: str, after_s: float) -> None:
    """Join, report twice a second, and say at the end that it is done, also on new connections."""
    await asyncio.sleep(after_s)
    while True:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                *(place.host, place.port), ssl=context, server_hostname=place.host, ssl_handshake_timeout=60
            )
            try:
                await _report(reader, writer, place, keys, name)
                return
            finally:
                writer.transport.abort()
        await asyncio.sleep(1.0)


async def _report(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place, keys: RunKeys, name: str
) -> None:
    writer.write(command(b"AUTH", place.user.encode(), place.password.encode()))
    await reader.readuntil(b"\r\n")
    is_done, has_said = False, False
    while not has_said:
        answer = msgspec.msgpack.encode(Answer(time.monotonic_ns(), is_done, []))
        writer.write(command(b"HSET", keys.roll_call.encode(), name.encode(), answer))
        writer.write(command(b"HLEN", keys.roll_call.encode()))
        writer.write(command(b"GET", keys.ending.encode()))
        await reader.readuntil(b"\r\n")
        agents = int((await reader.readuntil(b"\r\n"))[1:])
        ending = await reader.readuntil(b"\r\n")
        if ending.startswith(b"$") and not ending.startswith(b"$-"):
            ending = await reader.readuntil(b"\r\n")
        has_said, is_done = is_done, ending.strip() == TO_END
        if not is_done:
            await asyncio.sleep(report_in_s(agents))


def attend(url: str, run_id: str, numbers: range, within_s: float) -> None:
    """Be so many agents, until the run ends."""
    place, keys = place_of(url), RunKeys(run_id)
    context = ssl.create_default_context(cadata=place.certificate)
    context.check_hostname = False

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                after_s = random.uniform(0.0, within_s)
                group.create_task(be_agent(place, context, keys, f"agent-{number}", after_s))

    asyncio.run(all_of_them())


def tree_cpu_s(pid: int) -> float:
    """CPU time of a process and all below it, in seconds."""
    ticks = os.sysconf("SC_CLK_TCK")
    of: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            of[int(stat.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks
    inside = {pid}
    while more := {child for child, (parent, _) in of.items() if parent in inside} - inside:
        inside |= more
    return sum(of[one][1] for one in inside if one in of)


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agents", type=int, default=9_000)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        words = [*CHIMBUKO, "serve", str(folder), "--bind", "127.0.0.1", "--no-dashboard"]
        serving = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        while not (folder / "broker").exists():
            assert serving.poll() is None
            time.sleep(0.1)
        run = RunDirectory(folder)
        broker = RunBroker.connect(run.read_broker_url(), run.read_info().id)
        shares = [range(at, options.agents, options.processes) for at in range(options.processes)]
        began_s, began_cpu_s = time.monotonic(), tree_cpu_s(serving.pid)
        within_s = options.agents / JOINS_PER_S
        of_run = run.read_broker_url(), run.read_info().id
        clients = [
            # Not waited for where this process fails: they would wait for a run that nobody ends.
            multiprocessing.Process(target=attend, args=(*of_run, share, within_s), daemon=True)
            for share in shares
        ]
        for client in clients:
            client.start()
        joined = 0
        while joined < options.agents and time.monotonic() - began_s < LONGEST_S:
            time.sleep(0.2)
            # On a machine where clients take all cores, this one may be served late.
            with suppress(TimeoutError):
                joined = int(broker.client.hlen(broker.keys.roll_call))
        joined_s, cpu_s = time.monotonic() - began_s, tree_cpu_s(serving.pid)
        print(f"{joined:,} agents in {joined_s:.1f} s", file=sys.stderr)
        time.sleep(5)
        beats_s = (tree_cpu_s(serving.pid) - cpu_s) / 5
        stopping_s = time.monotonic()
        subprocess.run([*CHIMBUKO, "stop", str(folder)], check=True, capture_output=True)
        assert serving.stderr is not None
        said = serving.stderr.read()
        serving.wait()
        stopped_s = time.monotonic() - stopping_s
        for client in clients:
            client.join()
    share = f"{cpu_s - began_cpu_s:.1f} s of CPU for it, and {beats_s:.2f} cores while all were there"
    print(f"{joined:,} of {options.agents:,} agents joined in {joined_s:.1f} s; services took {share}")
    print(f"from the end of the run until all had said that they are done: {stopped_s:.1f} s")
    print(f"with {os.cpu_count()} cores for services and clients, load {os.getloadavg()[0]:.0f}")
    return 0 if joined == options.agents and "nothing is heard" not in said else 1


if __name__ == "__main__":
    sys.exit(main())
