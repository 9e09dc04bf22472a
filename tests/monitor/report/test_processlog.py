"""The log of each process."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.procfs.topology import CORE, MACHINE, PU, Part, nested
from chimbuko.monitor.report.processlog import ProcessLogs
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.sample import GroupCounters, Sample
from chimbuko.monitor.sampling.span import ProcessSpan, Span
from tests.monitor.sampling.made import COUNTERS, sample, span, thread

MIB = 2**20


def identity(pid: int, rank: int | None = None, **variables: str) -> Identity:
    return Identity(pid, 1, "./app in.nml", rank, 2, (0,), variables)


def made(*pids: int) -> Span:
    return span(
        *(thread(pid) for pid in pids),
        cores={0: 0.9},
        processes={pid: ProcessSpan(pid, 3 * MIB, 4 * MIB, 5 * MIB, 6 * MIB) for pid in pids},
        least_available_bytes=250 * MIB,
        pressure_s={"memory": 1.5, "cpu": 0.25},
    )


def seen(*pids: int) -> Sample:
    threads = (COUNTERS._replace(pid=pid, tid=pid) for pid in pids)
    return replace(sample(1.0, *threads), memory=NodeMemory(1000 * MIB, 200 * MIB, 300 * MIB))


def logs(folder: Path) -> ProcessLogs:
    cpus = frozenset((0, 1))
    parts = [
        Part(MACHINE, 0, cpus),
        *(Part(kind, cpu, frozenset((cpu,))) for kind in (CORE, PU) for cpu in cpus),
    ]
    return ProcessLogs(folder, "n1", nested(parts))


def test_the_configuration_is_there_at_once_and_what_it_did_in_the_end(tmp_path: Path) -> None:
    identities = {7: identity(7, 1, OMP_NUM_THREADS="4")}
    written = logs(tmp_path)
    written.begin(seen(7), identities)
    (path,) = tmp_path.iterdir()
    assert path.name == "zs.1.log"
    head = path.read_text().splitlines()
    assert head == [
        "Node: n1",
        "Process: 7",
        "Command: ./app in.nml",
        "Rank: 1 of 2",
        "CPUs allowed: [0]",
        "Memory of the node: 1,000.0 MB, 200.0 MB free, 300.0 MB available",
        "",
        "Environment:",
        "OMP_NUM_THREADS=4",
        "",
        "Topology (- marks what it may not use):",
        "Machine",
        "  Core L#0 P#0",
        "    PU L#0 P#0",
        "  Core L#1 P#1",
        "    PU L#1 P#1 -",
    ]
    total = made(7, 8)
    group = GroupCounters(MIB, 2 * MIB, None)
    total.processes[7] = ProcessSpan(7, 3 * MIB, 4 * MIB, 5 * MIB, 6 * MIB, group, 0.5)
    written.end(total, {**identities, 8: identity(8)})
    lines = path.read_text().splitlines()
    assert lines[: len(head) + 1] == [*head, ""]
    assert "MPI 001 - PID 7 - Node n1 - CPUs allowed: [0]" in lines
    assert [line for line in lines if line.startswith("LWP 8")] == []
    assert lines[-5:] == [
        "Memory: 3.0 MB at the end, at most 4.0 MB",
        "Storage: 5.0 MB read, 6.0 MB written",
        "Control group: 1.0 MB used at the end, 2.0 MB at most; kept from its cores for 0.50 s",
        "Memory of the node: at least 250.0 MB available",
        "Pressure (a task of the node waited): cpu 0.25 s, memory 1.50 s",
    ]
    # That one was seen by an earlier monitor only.
    assert (tmp_path / "zs.n1.8.log").read_text().startswith("Node: n1\nProcess: 8\n")


def test_what_a_rank_starts_does_not_overwrite_its_log(tmp_path: Path) -> None:
    identities = {7: identity(7, 0), 8: identity(8, 0), 9: identity(9, 1)}
    written = logs(tmp_path)
    written.begin(seen(7, 8, 9), identities)
    assert {path.name for path in tmp_path.iterdir()} == {"zs.0.log", "zs.0.8.log", "zs.1.log"}
