"""Which ports a run listens on, and on which interfaces: as docs/transports.md says."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.conftest import READER, STAND_IN, Start, command_line, descendants
from tests.thorough import first

LISTENING = "0A"
"""State of a socket in /proc/net/tcp."""
LOOPBACK, ANY = "0100007F", "00000000"


def listening() -> dict[str, str]:
    """Sockets that listen on this machine, by inode, with their address."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {one[9]: one[1].partition(":")[0] for one in fields if one[3] == LISTENING}


def ports_of(pid: int) -> list[str]:
    """Addresses that a process listens on."""
    sockets, found = listening(), []
    for name in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(name)):
                found += [sockets[match[1]]] if match[1] in sockets else []
    return found


@pytest.mark.parametrize("transport", first(1, ["sst", "files"]))
def test_only_sst_listens_beyond_the_loopback(start: Start, transport: str) -> None:
    command = [*STAND_IN, "-T", "serial", "-adios2_trace", "sleep", "4"]
    run = start("--transport", transport, "--period", "0.2", "--", *command)
    run.wait_until(lambda: sum(stream.steps for stream in run.health_so_far) > 1)
    ports = {pid: ports_of(pid) for pid in descendants(run.process.pid)}
    beyond = {pid: found for pid, found in ports.items() if set(found) - {LOOPBACK}}
    if transport == "files":
        assert beyond == {}
        assert any(ports.values()), "the broker listens, for us"
    else:
        readers, programs = run.readers, [pid for pid in beyond if "tau_exec" in command_line(pid)]
        assert all(READER in command_line(pid) for pid in readers)
        assert sorted(beyond) == sorted({*readers, *programs})
        assert [beyond[pid] for pid in programs] == [[ANY]]
        assert [beyond[pid] for pid in readers] == [[ANY, ANY]]
    assert run.end() == 0, run.output
