"""Allocations that are held already."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.jobs.schedulers import Allocation, allocation


def test_what_schedulers_say_of_their_nodes(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n3\nn3\nn4\n")
    path = str(tmp_path / "nodes")
    assert allocation({"SLURM_JOB_NODELIST": "n[3-4]"}) == Allocation("slurm", ["n3", "n4"])
    assert allocation({"PBS_NODEFILE": path}) == Allocation("pbs", ["n3", "n4"])
    assert allocation({"LSB_DJOB_HOSTFILE": path, "LSB_HOSTS": "a"}) == Allocation("lsf", ["n3", "n4"])
    assert allocation({"LSB_MCPU_HOSTS": "n3 2 n4 1", "LSB_HOSTS": "a"}) == Allocation("lsf", ["n3", "n4"])
    assert allocation({"LSB_HOSTS": "n3 n3 n4"}) == Allocation("lsf", ["n3", "n4"])


def test_of_two_the_inner_one_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flux").write_text('#!/bin/sh\n[ "$*" = "getattr hostlist" ] && echo "n[5-6]"\n')
    (tmp_path / "flux").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    inner = {"FLUX_URI": "local:///run/flux/local", "SLURM_JOB_NODELIST": "n[3-9]"}
    assert allocation(inner) == Allocation("flux", ["n5", "n6"])


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "no allocation is held here"),
        ({"PBS_NODEFILE": "/nowhere/nodes"}, "cannot be read"),
        ({"SLURM_JOB_NODELIST": "n[1-"}, "no list of hosts"),
    ],
)
def test_what_cannot_be_found_out_is_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        allocation(environment)


def test_a_flux_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="flux getattr hostlist"):
        allocation({"FLUX_URI": "local:///run/flux/local"})
