"""Hosts as schedulers list them."""

from __future__ import annotations

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.runtime.process.hostlists import expand, of_pairs, of_slots


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node7", ["node7"]),
        ("login,node[1-3,7]", ["login", "node1", "node2", "node3", "node7"]),
        ("node[008-011]", ["node008", "node009", "node010", "node011"]),
        ("node[98-101]", ["node98", "node99", "node100", "node101"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("x[1,3]-ib0,10.0.0.7", ["x1-ib0", "x3-ib0", "10.0.0.7"]),
        # As Flux lists several brokers of one host.
        ("vm,vm", ["vm", "vm"]),
    ],
)
def test_lists_of_slurm_and_flux(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts


@pytest.mark.parametrize("text", ["", "node[1-3", "node1-3]", "node[a-b]", "node[]", "a,,b", "node[1-]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        expand(text)


def test_lists_with_slots_name_each_host_once() -> None:
    assert of_slots(["n2\n", "n2\n", "n1.cluster\n", "\n", "n2\n"]) == ["n2", "n1.cluster"]
    assert of_pairs("n2 4 n1 3 n2 1") == ["n2", "n1"]
