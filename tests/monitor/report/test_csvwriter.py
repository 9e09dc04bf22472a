"""Tables in ZeroSum's columns: those that it writes are read, and ours are as well."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.report.csvwriter import CsvWriter, Value, read_zerosum
from chimbuko.monitor.sampling.identity import Identity
from tests.monitor.sampling.made import span, thread

HEAD = '"hostname","rank","shmrank","step","resource","type","index","name","value"\n'
AS_WRITTEN = (
    HEAD
    + '"node 7",3,1,4,"LWP","Metric","1387829","utime","252"\n'
    + '"node 7",3,1,2,"GPU"," Metric","0","Power (W)","278.336000"\n'
    + '"node 7",3,1,2,"LWP","Metric","1387829","state","R"\n'
    + '"node 7",3,1,0,"GPU","Property","0","Max Grid Size","[1024,1024,64]"\n'
)
"""Steps come in no order, one kind has a blank before it, and values may hold commas."""


def test_what_zerosum_writes(tmp_path: Path) -> None:
    path = tmp_path / "zs.data.3.csv"
    path.write_text(AS_WRITTEN)
    found = list(read_zerosum(path))
    assert found[0] == Value("node 7", 3, 1, 4, "LWP", "Metric", "1387829", "utime", "252")
    assert [(one.type, one.number) for one in found] == [
        ("Metric", 252.0),
        ("Metric", 278.336),
        ("Metric", None),
        ("Property", None),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "not ZeroSum's columns"),
        ('"a","b"\n', "not ZeroSum's columns"),
        (HEAD + '"n",0,0,1,"LWP"\n', r"zs\.csv:2: not a line of ZeroSum's \(5 values in place of 9\)"),
        (HEAD + '"n",x,0,1,"LWP","Metric","0","a","1"\n', r"zs\.csv:2: not a line of ZeroSum's"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "zs.csv").write_text(text)
    with pytest.raises(ConfigError, match=error):
        list(read_zerosum(tmp_path / "zs.csv"))


@pytest.mark.parametrize(
    "text",
    [
        AS_WRITTEN + '"node 7",3,1,5,"LWP","Metr',
        AS_WRITTEN + '"node 7",3,1,5,"LWP","Metric","1387829","utime","25',
        AS_WRITTEN.replace("\n", "\r\n") + "\n",
        "\ufeff" + AS_WRITTEN,
    ],
    ids=["cut off", "cut off in its value", "of Windows", "marked as UTF-8"],
)
def test_files_of_programs_that_were_killed_and_of_other_systems(tmp_path: Path, text: str) -> None:
    path, whole = tmp_path / "zs.csv", tmp_path / "whole.csv"
    path.write_bytes(text.encode())
    whole.write_text(AS_WRITTEN)
    assert list(read_zerosum(path)) == list(read_zerosum(whole))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_zerosum(tmp_path / "zs.csv"))


def test_ours_are_read_back(tmp_path: Path) -> None:
    identities = {
        pid: Identity(pid, 1, "./app", rank, 2, (0,), {}) for pid, rank in ((10, 0), (11, 1), (12, None))
    }
    writer = CsvWriter(tmp_path, "n7")
    period = span(
        *(thread(pid, busy=0.5, involuntary=3, seconds=1.0) for pid in identities),
        thread(13, pid=11, busy=0.25, seconds=1.0),
        cores={0: 0.75},
        processes=dict.fromkeys(identities),  # type: ignore[dict-item]
        seconds=1.0,
    )
    writer.write(period, period, identities)
    writer.write(period, period.then(replaced(period)), identities)
    writer.close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "zs.data.0.csv",
        "zs.data.1.csv",
        "zs.data.n7.12.csv",
    }
    assert b"\r" not in (tmp_path / "zs.data.1.csv").read_bytes()
    found = list(read_zerosum(tmp_path / "zs.data.1.csv"))
    assert {(one.hostname, one.rank, one.shmrank) for one in found} == {("n7", 1, 1)}
    values = {(one.step, one.index, one.name): one.value for one in found if one.resource == "LWP"}
    assert (values[1, "11", "utime"], values[2, "11", "utime"]) == ("50", "100")
    assert values[2, "13", "utime"] == "50"
    assert values[2, "11", "nonvoluntary_ctxt_switches"] == "6"
    assert values[1, "11", "state"] == "R"
    assert {one.index for one in found if one.resource == "LWP"} == {"11", "13"}
    cores = {one.name: one.value for one in found if one.resource == "HWT" and one.step == 1}
    assert (cores["user"], cores["idle_all"], cores["steal"]) == ("75.00", "25.00", "0.00")


def replaced(period):  # type: ignore[no-untyped-def]
    return replace(period, processes={})


def test_the_file_of_a_process_that_has_ended_is_closed(tmp_path: Path) -> None:
    """A program may start more processes than may be open files; one that was missed goes on in its file."""
    identities = {pid: Identity(pid, 1, "./app", None, 1, (0,), {}) for pid in (10, 11)}
    both = span(thread(10), thread(11), processes=dict.fromkeys((10, 11)), seconds=1.0)  # type: ignore[arg-type]
    one = span(thread(11), processes={11: None}, seconds=1.0)  # type: ignore[dict-item]
    writer = CsvWriter(tmp_path, "n7")
    writer.write(both, both, identities)
    writer.write(one, both, identities)
    path = tmp_path / "zs.data.n7.10.csv"
    assert {found.step for found in read_zerosum(path)} == {1}
    writer.write(both, replace(both, periods=3), identities)
    writer.close()
    assert {found.step for found in read_zerosum(path)} == {1, 3}


@pytest.mark.parametrize(("goes_on", "steps"), [(False, [2]), (True, [1, 2])])
def test_a_table_of_this_run_goes_on_and_one_of_an_earlier_run_is_replaced(
    tmp_path: Path, goes_on: bool, steps: list[int]
) -> None:
    for period in (1, 2):
        writer = CsvWriter(tmp_path, "n7", goes_on)
        made = span(thread(10), processes={10: None}, seconds=1.0)  # type: ignore[dict-item]
        writer.write(made, replace(made, periods=period), {10: Identity(10, 1, "./app", 3, 4, (0,), {})})
        writer.close()
    (path,) = tmp_path.iterdir()
    assert path.name == "zs.data.3.csv"
    assert sorted({found.step for found in read_zerosum(path)}) == steps


def test_more_processes_than_files_that_may_be_open(tmp_path: Path) -> None:
    identities = {pid: Identity(pid, 1, "./app", None, 1, (0,), {}) for pid in range(10, 30)}
    made = span(*map(thread, identities), processes=dict.fromkeys(identities), seconds=1.0)  # type: ignore[arg-type]
    writer = CsvWriter(tmp_path, "n7")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as highest:
        # Numbers below may be free: as many as are open are filled first.
        fillers = [os.dup(highest.fileno()) for _ in range(8)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(fillers) + 5, limits[1]))
        try:
            writer.write(made, made, identities)
            writer.write(made, replace(made, periods=2), identities)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for number in fillers:
                os.close(number)
    writer.close()
    for pid in identities:
        found = list(read_zerosum(tmp_path / f"zs.data.n7.{pid}.csv"))
        assert {one.step for one in found} == {1, 2}
