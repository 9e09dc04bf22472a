"""The ADIOS2 time series is read back by ADIOS2 itself."""

from __future__ import annotations

from pathlib import Path

import adios2
import numpy as np
import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.gpuspan import GpuReading, gpu_span
from chimbuko.monitor.report.timeseries import TimeSeriesWriter
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import ProcessSpan
from tests.monitor.sampling.made import span, thread

IDENTITIES = {10: Identity(10, 1, "./app", 3, 4, (0,), {})}


def test_a_period_is_a_step_and_threads_may_come_and_go(tmp_path: Path) -> None:
    memory = {"processes": {10: ProcessSpan(10, 2**20, 2**21)}}
    gpu = {"gpus": {2: gpu_span(GpuReading("Made 100", 52.0, None, None, 400.0, None, None))}}
    writer = TimeSeriesWriter(tmp_path / "n7.bp", "n7")
    one = thread(10, busy=0.5, seconds=1.0)
    two = thread(11, pid=12, busy=0.25, seconds=1.0, waited_s=None)
    writer.write(span(one, cores={0: 0.75}, seconds=1.0, **memory), IDENTITIES)
    writer.write(span(one, two, cores={0: 0.25}, seconds=1.0, **memory, **gpu), IDENTITIES)
    writer.close()
    with adios2.FileReader(str(tmp_path / "n7.bp")) as file:
        attributes = file.available_attributes()
        assert {name: one["Value"] for name, one in attributes.items()} == {
            "node": '"n7"',
            "thread 10": '"app"',
            "thread 11": '"app"',
        }
    with adios2.Stream(str(tmp_path / "n7.bp"), "r") as stream:
        steps = [{name: stream.read(name) for name in stream.available_variables()} for _ in stream.steps()]
    assert [step["threads/tid"].tolist() for step in steps] == [[10], [10, 11]]
    assert steps[1]["threads/rank"].tolist() == [3, -1]
    assert steps[1]["threads/user_s"].tolist() == [0.5, 0.25]
    assert np.isnan(steps[1]["threads/waited_s"]).tolist() == [False, True]
    assert [step["cores/user_s"].tolist() for step in steps] == [[0.75], [0.25]]
    assert steps[0]["processes/resident_bytes"].tolist() == [2**20]
    assert "gpus/gpu" not in steps[0] and steps[1]["gpus/gpu"].tolist() == [2]
    assert steps[1]["gpus/busy_percent"].tolist() == [52.0] and np.isnan(steps[1]["gpus/temperature_c"])[0]
    assert steps[0]["time_s"] <= steps[1]["time_s"]


def test_another_monitor_of_the_job_goes_on_with_the_file(tmp_path: Path) -> None:
    for goes_on in (False, True, True):
        writer = TimeSeriesWriter(tmp_path / "n7.bp", "n7", goes_on)
        writer.write(span(thread(10, seconds=1.0), seconds=1.0), IDENTITIES)
        writer.close()
    with adios2.Stream(str(tmp_path / "n7.bp"), "r") as stream:
        assert sum(1 for _ in stream.steps()) == 3


def test_a_file_that_cannot_be_is_an_error_of_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^/proc/n7\.bp: no time series can be written there \(.*\)$"):
        TimeSeriesWriter(Path("/proc/n7.bp"), "n7")
