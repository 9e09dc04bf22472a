"""Which ports a run listens on, and on which interfaces: as docs/internals/transports.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import READER, STAND_IN, Start, command_line, descendants
from tests.sockets import listened_on
from tests.thorough import first

LOOPBACK, ANY = "0100007F", "00000000"


def addresses_of(pid: int) -> list[str]:
    """Addresses that a process listens on."""
    return [address for address, _ in listened_on(pid)]


@pytest.mark.parametrize("transport", first(1, ["sst", "files"]))
def test_only_sst_listens_beyond_the_loopback(start: Start, tmp_path: Path, transport: str) -> None:
    held = tmp_path / "held"
    held.touch()
    wait = ["sh", "-c", f"while [ -e {held} ]; do sleep 0.1; done"]
    command = [*STAND_IN, "-T", "serial", "-adios2_trace", *wait]
    run = start("--transport", transport, "--period", "0.2", "--", *command)
    run.wait_until(lambda: sum(stream.steps for stream in run.health_so_far) > 1)
    ports = {pid: addresses_of(pid) for pid in descendants(run.process.pid)}
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
    held.unlink()
    assert run.end() == 0, run.output
