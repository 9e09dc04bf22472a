"""Topologies of made-up nodes, by hwloc's XML and by sysfs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.topology import (
    CORE,
    NUMA,
    PACKAGE,
    PU,
    parse_hwloc,
    read_sysfs,
    read_topology,
    summary,
)

SMALL = """<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x0000000f">
<object type="Package" os_index="0" cpuset="0x0000000f">
<object type="Group" cpuset="0x0000000f">
<object type="Core" os_index="0" cpuset="0x00000005">
<object type="PU" os_index="0" cpuset="0x00000001"/>
<object type="PU" os_index="2" cpuset="0x00000004"/></object>
<object type="Core" os_index="4" cpuset="0x0000000a">
<object type="PU" os_index="1" cpuset="0x00000002"/>
<object type="PU" os_index="3" cpuset="0x00000008"/></object>
</object>
<object type="NUMANode" os_index="0" cpuset="0x0000000f" local_memory="1073741824"/>
</object></object></topology>"""


def made_node(root: Path, packages: int, cores: int, smt: int, offline: tuple[int, ...] = ()) -> Path:
    """A ``/sys/devices/system`` whose siblings are far apart, as Linux numbers them."""
    total = packages * cores * smt
    per_package = cores * smt
    threads = {
        (package, core, thread): (package * cores + core) + thread * packages * cores
        for package in range(packages)
        for core in range(cores)
        for thread in range(smt)
    }

    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def cpus_of(package: int, core: int | None = None) -> str:
        return ",".join(
            str(cpu)
            for (p, c, _), cpu in sorted(threads.items(), key=lambda pair: pair[1])
            if p == package and core in (None, c) and cpu not in offline
        )

    write(root / "cpu/online", ",".join(str(cpu) for cpu in range(total) if cpu not in offline))
    for (package, core, _), cpu in threads.items():
        if cpu in offline:
            continue
        folder = root / f"cpu/cpu{cpu}"
        write(folder / "topology/core_id", str(core))
        write(folder / "topology/physical_package_id", str(package))
        write(folder / "topology/thread_siblings_list", cpus_of(package, core))
        write(folder / "topology/core_siblings_list", cpus_of(package))
        write(folder / "cache/index3/level", "3")
        write(folder / "cache/index3/type", "Unified")
        write(folder / "cache/index3/size", "32768K")
        write(folder / "cache/index3/shared_cpu_list", cpus_of(package))
    for package in range(packages):
        write(root / f"node/node{package}/cpulist", cpus_of(package))
        write(root / f"node/node{package}/meminfo", f"Node {package} MemTotal:   1048576 kB")
    assert len(threads) == packages * per_package
    return root


def test_logical_and_physical_numbers_differ() -> None:
    topology = parse_hwloc(SMALL)
    assert topology.lines({0, 1, 2}) == [
        "Machine (1 GB)",
        "  Package L#0 P#0",
        "    NUMANode L#0 P#0 (1 GB)",
        "    Core L#0 P#0",
        "      PU L#0 P#0",
        "      PU L#1 P#2",
        "    Core L#1 P#4",
        "      PU L#2 P#1",
        "      PU L#3 P#3 -",
    ]
    assert topology.core_of == {0: 0, 2: 0, 1: 1, 3: 1}
    assert summary(topology) == "1 package, 1 NUMA node, 2 cores, 4 hardware threads (0-3)"


@pytest.mark.parametrize("xml", ["", "<topology>", "<topology/>", SMALL.replace("0x0000000f", "0xzz")])
def test_what_is_no_topology_is_said(xml: str) -> None:
    with pytest.raises(ConfigError, match="topology of lstopo"):
        parse_hwloc(xml)


def test_eight_sockets_of_four_threads_a_core_from_sysfs(tmp_path: Path) -> None:
    topology = read_sysfs(made_node(tmp_path, packages=8, cores=8, smt=4))
    assert topology.counts == {"Machine": 1, PACKAGE: 8, NUMA: 8, "L3Cache": 8, CORE: 64, PU: 256}
    assert topology.cpus() == tuple(range(256))
    assert {cpu for cpu, core in topology.core_of.items() if core == 9} == {9, 73, 137, 201}
    assert topology.root.size_bytes == 8 * 2**30


def test_offline_hardware_threads_are_left_out(tmp_path: Path) -> None:
    topology = read_sysfs(made_node(tmp_path, packages=2, cores=2, smt=2, offline=(3, 5)))
    assert topology.cpus() == (0, 1, 2, 4, 6, 7)
    assert topology.counts[CORE] == 4
    assert sorted(topology.core_of.items()) == [(0, 0), (1, 1), (2, 2), (4, 0), (6, 2), (7, 3)]


def test_a_node_of_which_the_kernel_says_little(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/online").write_text("0-1\n")
    assert read_sysfs(tmp_path).lines() == ["Machine", "  PU L#0 P#0", "  PU L#1 P#1"]


@pytest.mark.skipif(shutil.which("lstopo-no-graphics") is None, reason="no hwloc: apt-get install hwloc")
@pytest.mark.parametrize(
    ("node", "counts"),
    [
        ("pack:8 numa:1 l3:1 core:8 pu:4", {PACKAGE: 8, NUMA: 8, CORE: 64, PU: 256}),
        ("pack:1 numa:4 l3:2 core:8 pu:2", {PACKAGE: 1, NUMA: 4, "L3Cache": 8, CORE: 64, PU: 128}),
    ],
)
def test_made_up_nodes_of_hwloc(node: str, counts: dict[str, int]) -> None:
    command = ["lstopo-no-graphics", "-i", node, "--of", "xml"]
    topology = parse_hwloc(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {kind: topology.counts[kind] for kind in counts} == counts
    assert topology.cpus() == tuple(range(counts[PU]))


def test_both_ways_agree_about_this_node() -> None:
    by_hwloc, by_kernel = read_topology(), read_sysfs()
    assert by_hwloc.cpus() == by_kernel.cpus()
    for kind in (PACKAGE, CORE, PU):
        assert by_hwloc.counts.get(kind) == by_kernel.counts.get(kind)


def test_memory_lies_in_the_outermost_part_that_has_the_same_hardware_threads(tmp_path: Path) -> None:
    lines = read_sysfs(made_node(tmp_path, packages=2, cores=1, smt=1)).lines()
    package = ["NUMANode L#0 P#0 (1 GB)", "L3Cache L#0 (32 MB)", "  Core L#0 P#0", "    PU L#0 P#0"]
    assert lines[:6] == ["Machine (2 GB)", "  Package L#0 P#0", *(f"    {line}" for line in package)]
