"""Profiles of Caliper: what they say of a process is published each time that Caliper has written one."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError, ObservationError
from chimbuko.observe.namespaces.client import caliper
from chimbuko.observe.namespaces.client.caliper import (
    NAMESPACE,
    CaliperProfiles,
    is_whole,
    monitor,
    read_profile,
)
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from tests.integration.namespaces import NotPermitted
from tests.integration.nodes import CHIMBUKO, cluster
from tests.observe.namespaces.served import Served, served
from tests.patience import PATIENCE_S

NODES = """\
__rec=node,id=20,attr=8,data=276,parent=3
__rec=node,id=21,attr=10,data=276,parent=3
__rec=node,id=22,attr=8,data=region,parent=21
__rec=node,id=24,attr=10,data=2049,parent=1
__rec=node,id=25,attr=8,data=sum#time.duration.ns,parent=24
__rec=node,id=26,attr=8,data=mpi.rank,parent=24
__rec=node,id=27,attr=8,data=max#memstat.vmrss,parent=24
__rec=node,id=28,attr=8,data=count,parent=24
__rec=node,id=29,attr=8,data=sum#region.count,parent=24
__rec=node,id=30,attr=22,data=main
__rec=node,id=31,attr=22,data=MPI_Allreduce,parent=30
"""


def profile(main_ns: int, mpi_ns: int, rank: int | None = 3, globals_: str = "") -> bytes:
    """What Caliper writes of a process that is in two regions."""
    of_rank = ("", "") if rank is None else ("=26", f"={rank}")
    records = (
        f"__rec=ctx,attr=25=28{of_rank[0]},data=1000=1{of_rank[1]}\n"
        f"__rec=ctx,ref=30,attr=25=27=28=29{of_rank[0]},data={main_ns}=70=2=1{of_rank[1]}\n"
        f"__rec=ctx,ref=31,attr=25=27=28{of_rank[0]},data={mpi_ns}=60=3{of_rank[1]}\n"
    )
    return f"{NODES}{records}__rec=globals{globals_}\n".encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("namespaces") / "service", 1, (NAMESPACE,)) as service:
        yield service


def published(service: Served, under: str) -> dict[str, Any]:
    with Reader(service.path) as reader:
        return dict(reader.read(NAMESPACE, under))


def program_of(profiles: dict[str, bytes]) -> str:
    """A Python program whose process writes these profiles, as Caliper would in several processes."""
    return (
        "import os, pathlib, sys\n"
        "assert 'aggregate' in os.environ['CALI_SERVICES_ENABLE']\n"
        "assert os.environ['CALI_AGGREGATE_KEY'] == 'mpi.rank'\n"
        "folder = pathlib.Path(os.environ['CALI_RECORDER_DIRECTORY'])\n"
        f"for at, (name, data) in enumerate({profiles!r}.items()):\n"
        "    (folder / f'd_{os.getpid() + at}_{name}.cali').write_bytes(data)\n"
        "sys.exit(7)\n"
    )


def test_a_profile_has_the_times_of_regions_and_other_numbers() -> None:
    found = read_profile(profile(5_000_000, 2_000_000))
    assert found.rank == 3
    assert dict(found.leaves({})) == {
        "main_Exclusive": 5000.0,
        "main_Calls": 1.0,
        "MPI_Allreduce_Exclusive": 2000.0,
        "(no region)_Exclusive": 1.0,
        "max#memstat.vmrss": 70.0,
    }
    assert read_profile(profile(1, 1, None, ",attr=26,data=7")).rank == 7


def test_regions_that_have_a_key_keep_it_and_the_rest_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caliper, "MOST_REGIONS", 1)
    chosen: dict[str, None] = {}
    for main_ns, mpi_ns in ((5000, 2000), (5000, 9000)):
        leaves = dict(read_profile(profile(main_ns, mpi_ns)).leaves(chosen))
        assert leaves["main_Exclusive"] == 5.0
        assert leaves["(others)_Exclusive"] == mpi_ns / 1000 + 1.0


@given(st.integers(0, 2000), st.binary(max_size=6))
@example(0, b"\\\n")
def test_no_profile_does_harm(at: int, noise: bytes) -> None:
    whole = profile(5000, 2000)
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    try:
        read_profile(damaged)
    except ObservationError as error:
        assert "\n" not in str(error)
    for end in (0, 5, len(whole) - 1):
        assert not is_whole(whole[:end])


def test_the_newest_profile_of_each_process_is_published(service: Served, tmp_path: Path) -> None:
    """Half a profile is read when it is whole; what is no profile is said once, and harms none."""
    with Client(service.path, rank=0) as client:
        following = CaliperProfiles(tmp_path, client, "heat", is_ours=True)
        (tmp_path / "261126-010101_11_a.cali").write_bytes(profile(1000, 1000))
        (tmp_path / "261126-010101_12_b.cali").write_bytes(profile(4000, 1000, None))
        (tmp_path / "261126-010101_13_c.cali").write_bytes(b"__rec=ctx,ref=99\n__rec=globals\n")
        following.look()
        assert following.count == 2
        newer = tmp_path / "261126-010102_11_d.cali"
        newer.write_bytes(profile(3000, 2000)[:-5])
        following.look()
        following.look()
        assert following.count == 2
        newer.write_bytes(profile(3000, 2000))
        following.look()
        assert following.count == 3
    values: Any = published(service, "heat/CALIPER")["heat"]
    assert values["CALIPER"]["Rank 3"]["main_Exclusive"] == 3.0
    assert values["CALIPER"][platform.node()]["Rank 0"]["main_Exclusive"] == 4.0


def test_a_program_is_run_with_caliper_and_its_exit_code_kept(
    service: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program that writes what Caliper would write stands for one."""
    monkeypatch.delenv("CALI_SERVICES_ENABLE", raising=False)
    words = [sys.executable, "-c", program_of({"x": profile(8000, 1000, 1)})]
    assert monitor(words, None, "", str(service.path)) == 7
    values: Any = published(service, "CALIPER/Rank 1")
    assert values["CALIPER"]["Rank 1"]["main_Exclusive"] == 8.0
    assert monitor([sys.executable, "-c", ""], None, "", str(service.path)) == 0
    assert "Caliper has written no profile" in capfd.readouterr().err
    with pytest.raises(ConfigError, match="is no folder"):
        monitor((), tmp_path / "none", "", str(service.path))


@pytest.mark.thorough
def test_several_nodes_publish_beside_each_other(tmp_path: Path) -> None:
    """Whose processes have the same numbers. Ranks of MPI are those of the program, others are the node's."""
    service, logs = tmp_path / "service", tmp_path / "logs"
    logs.mkdir()
    try:
        with cluster(2, tmp_path) as nodes:
            first = nodes.nodes[0]
            serving = first.start(
                [*CHIMBUKO, "namespaces", "serve", service, "--bind", first.name], logs / "serve"
            )
            deadline_s = time.monotonic() + PATIENCE_S
            while "are served" not in (logs / "serve").read_text():
                assert serving.poll() is None and time.monotonic() < deadline_s, (logs / "serve").read_text()
                time.sleep(0.05)
            monitors = []
            for rank, node in enumerate(nodes.nodes):
                profiles = {"x": profile(1000 * rank, 1000, rank), "y": profile(5000 + rank, 1000, None)}
                words = [*CHIMBUKO, "namespaces", "caliper", "--service", service, "--", sys.executable, "-c"]
                monitors.append(node.start([*words, program_of(profiles)], logs / node.name))
            codes = [monitor.wait(PATIENCE_S) for monitor in monitors]
            assert codes == [7, 7], [(logs / node.name).read_text() for node in nodes.nodes]
            words = [*CHIMBUKO, "namespaces", "read", "performance", "--service", service, "--form", "json"]
            done = first.call(words, tmp_path)
    except NotPermitted as reason:
        pytest.skip(f"no nodes here: {reason}")
    found = json.loads(done.stdout)["CALIPER"]
    assert [found[f"Rank {rank}"]["main_Exclusive"] for rank in range(2)] == [0.0, 1.0]
    assert [found[f"node{at}"]["Rank 0"]["main_Exclusive"] for at in range(2)] == [5.0, 5.001]
