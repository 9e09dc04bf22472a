"""PerfFlowAspect's options and the names of its files."""

from __future__ import annotations

import hashlib

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.options import Options, file_name, instance_path, parse_options


def digest(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()[:8]


def test_without_a_word_all_is_as_perfflowaspect_has_it() -> None:
    assert parse_options("") == Options()
    assert file_name(Options(), "1", "node", 7) == "perfflow.array.node.7.pfw"


def test_every_key() -> None:
    text = (
        "name=solver:log-filename-include=name,instance-path,pid,hostname:log-dir=/there:log-enable=False"
        ":cpu-mem-usage=true:log-event=Compact:log-format=Object:caliper-enable=TRUE"
    )
    parts = ("name", "instance-path", "pid", "hostname")
    assert parse_options(text) == Options("solver", parts, "/there", False, True, True, True, True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("log-event=Short", "log-event is verbose or compact, not 'Short'"),
        ("log-enable=1", "log-enable is true or false, not '1'"),
        ("log-filename-include=pid,core", "not 'core'"),
        ("name", "'name' is none of name=…"),
        ("log-level=3", "'log-level=3' is none of"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, names: str) -> None:
    with pytest.raises(ConfigError, match="PERFFLOW_OPTIONS") as refused:
        parse_options(text)
    assert names in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"FLUX_JOB_ID": "123456"}, "123456"),
        ({"FLUX_JOB_ID": "123456", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "2"}, "123456"),
        ({"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "3"}, digest("17.3")),
        ({"LSB_JOBID": "9", "LS_JOBPID": "44"}, digest("9.44")),
        ({"SLURM_JOB_ID": "17", "LSB_JOBID": "9", "LS_JOBPID": "44"}, digest("1")),
        ({"FLUX_URI": "local:///run/flux/f12/local-0"}, digest("/run/flux/f12")),
        ({}, digest("1")),
        ({"FLUX_JOB_ID": "2", "PERFFLOW_INSTANCE_PATH": "outer.1"}, "outer.1.2"),
    ],
)
def test_an_instance_is_named_after_the_job_and_stands_behind_those_around_it(
    environment: dict[str, str], path: str
) -> None:
    assert instance_path(environment) == path


def test_parts_of_a_name_stand_in_the_order_that_was_asked_for() -> None:
    options = parse_options("log-filename-include=instance-path")
    assert file_name(options, "123456", "node", 7) == "perfflow.array.{123456}.pfw"
    options = parse_options("name=foo:log-format=Object:log-filename-include=pid,name")
    assert file_name(options, "1", "node", 7) == "perfflow.object.7.foo.pfw"
