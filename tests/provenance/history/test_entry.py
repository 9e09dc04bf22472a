"""Which runs are of the same series."""

from __future__ import annotations

import msgspec
import pytest

from chimbuko.provenance.history.entry import at_end, at_start, machine_of, steady_words
from tests.sample_records import make_run


def test_what_changes_from_run_to_run_is_left_out() -> None:
    words = [
        "mpirun",
        "-n",
        "4",
        "/scratch/job.1234567/heat2d",
        "--in=/data/a/input.nc",
        "2026-11-02T10",
        "12",
    ]
    assert steady_words(words) == ["mpirun", "-n", "4", "heat2d", "--in=input.nc", "#", "12"]
    assert steady_words(["a:/x/y", "0123456789abcdef"]) == ["a:y", "#"]


@pytest.mark.parametrize(
    ("host", "facts", "machine"),
    [
        ("node0017.cluster.example", {}, "node.cluster.example"),
        ("node0017", {"SLURM_CLUSTER_NAME": "big", "cpu": "A CPU"}, "big, A CPU"),
        ("laptop", {"cpu": "A CPU"}, "laptop, A CPU"),
    ],
)
def test_nodes_of_a_machine_are_one(host: str, facts: dict[str, str], machine: str) -> None:
    assert machine_of(host, facts) == machine


def test_size_input_labels_and_threads_tell_series_apart() -> None:
    run = make_run()
    one = at_end(run, ["heat2d"], 4, 1)
    labelled = msgspec.structs.replace(run, environment={"label input": "large", "OMP_NUM_THREADS": "4"})
    others = [
        at_end(run, ["heat2d"], 8, 1),
        at_end(run, ["heat2d"], 4, 2),
        at_end(labelled, ["heat2d"], 4, 1),
    ]
    assert len({one.key, *(other.key for other in others)}) == 4
    assert at_end(msgspec.structs.replace(run, id="another", name="later"), ["heat2d"], 4, 1) == one
    assert others[2].title.startswith("4 ranks, ")
    assert "OMP_NUM_THREADS=4, input=large" in others[2].title
    assert at_start(run).key != at_start(labelled).key
