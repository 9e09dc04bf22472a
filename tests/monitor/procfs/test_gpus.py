"""GPUs by a made-up provider: what is asked of makers' libraries, and where it is shown."""

from __future__ import annotations

import _struct
import importlib
import os
import threading
import time
import types
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from chimbuko.monitor.collector.collector import Collector
from chimbuko.monitor.collector.watched import Watched
from chimbuko.monitor.procfs import gpus
from chimbuko.monitor.procfs.gpus import Gpus, Maker, Nvml, Rocm, present_gpus
from chimbuko.monitor.procfs.gpuspan import BUSY, GpuReading, gpu_span
from chimbuko.monitor.report.csvwriter import CsvWriter, read_zerosum
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.report.layout import heartbeat, report
from chimbuko.monitor.report.prometheus import exposition
from chimbuko.monitor.sampling.nodebatch import packed, unpacked
from chimbuko.monitor.sampling.rows import ANYBODY
from chimbuko.monitor.sampling.watch import Watch


def busy_here() -> GpuReading:
    """A reading of a GPU that this process uses: files of tests run in forks."""
    return GpuReading("Made 100", 52.0, 2 * 10**9, 80 * 10**9, 400.0, 91.0, True, frozenset((os.getpid(), 1)))


COOL = GpuReading("Made 100", 0.0, 10**9, 80 * 10**9, 70.0, 40.0, False)
SILENT = GpuReading("Old", None, None, None, None, None, None)


class MadeGpus:
    """Gives one list of readings after the other."""

    def __init__(self, *samples: Sequence[GpuReading]) -> None:
        self._samples = list(samples)
        self.is_closed = False

    def read(self) -> list[GpuReading]:
        return list(self._samples.pop(0) if len(self._samples) > 1 else self._samples[0])

    def close(self) -> None:
        self.is_closed = True


def test_a_watched_program_has_its_gpus_in_all_reports(tmp_path: Path) -> None:
    made = MadeGpus([COOL, SILENT], [COOL, SILENT], [busy_here(), SILENT])
    watch = Watch([os.getpid()], Gpus([made]))
    table = CsvWriter(tmp_path, "here")
    watch.step()
    for _ in range(2):
        span = watch.step()
        assert span is not None and watch.total is not None
        table.write(span, watch.total, watch.identities)
    watch.close()
    table.close()
    assert made.is_closed
    lines = report(watch.total, watch.identities, "here")
    assert "GPU 0 - Made 100 (metric: min avg max)" in lines and "GPU 1 - Old (metric: min avg max)" in lines
    assert "    Utilization %: 0.00 26.00 52.00" in lines
    assert "    Memory Used (GB): 1.00 1.50 2.00" in lines
    # Of this process: whoever runs tests may have others.
    path = tmp_path / f"zs.data.here.{os.getpid()}.csv"
    values = [
        (one.step, one.value) for one in read_zerosum(path) if (one.resource, one.name) == ("GPU", BUSY)
    ]
    assert values == [(1, "0.00"), (2, "52.00")]
    text = exposition(watch.total, watch.identities, "here")
    assert 'chimbuko_monitor_gpu_busy_ratio{node="here",gpu="0",name="Made 100"} 0.52\n' in text
    assert 'gpu="1"' not in text
    assert "0.5 of 1 GPU busy" in heartbeat(span, watch.total)
    (found,) = [one for one in findings(watch.total) if one.kind == "GPU throttled"]
    assert "GPU 0 (Made 100)" in found.text and "50 % of the time, at up to 91 °C" in found.text


def test_a_gpu_that_is_not_slowed_down_is_no_finding() -> None:
    span = gpu_span(COOL).then(gpu_span(SILENT))
    assert (span.periods, span.throttled_periods) == (2, 0)
    assert span.metrics[BUSY].samples == 1


class NVMLError(Exception):
    """As the library's."""


def no_answer(*_: object) -> None:
    raise NVMLError("not supported")


def nvml(**other: object) -> types.SimpleNamespace:
    """The functions of ``pynvml`` that are asked, of one GPU."""
    answers: dict[str, object] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: b"Made 100",
        "nvmlDeviceGetMemoryInfo": lambda _: types.SimpleNamespace(used=2 * 10**9, total=80 * 10**9),
        "nvmlDeviceGetUtilizationRates": lambda _: types.SimpleNamespace(gpu=52, memory=3),
        "nvmlDeviceGetPowerUsage": lambda _: 400_000,
        "nvmlDeviceGetTemperature": lambda _, sensor: 91,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0x40,
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [
            types.SimpleNamespace(pid=pid) for pid in (os.getpid(), 1)
        ],
        "NVML_TEMPERATURE_GPU": 0,
        "NVMLError": NVMLError,
    }
    return types.SimpleNamespace(**(answers | other))


def test_nvml_is_asked_in_its_units() -> None:
    assert Nvml(nvml()).read() == [busy_here()]
    at_its_limit = nvml(nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 0x4)
    assert Nvml(at_its_limit).read()[0].is_throttled is False


def test_what_a_gpu_does_not_say_is_left_out() -> None:
    asked = {name for name in vars(nvml()) if name.startswith("nvmlDeviceGet")}
    asked -= {"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"}
    provider = Nvml(nvml(**dict.fromkeys(asked, no_answer)))
    assert provider.read() == [SILENT._replace(name="NVIDIA")]
    provider.close()


def test_rocm_is_asked_in_its_units() -> None:
    sensors = types.SimpleNamespace(HOTSPOT=1, CURRENT=0)
    library = types.SimpleNamespace(
        amdsmi_init=lambda: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: [1],
        amdsmi_get_gpu_vram_usage=lambda _: {"vram_used": 100, "vram_total": 65_536},
        amdsmi_get_power_info=lambda _: {"current_socket_power": "N/A", "average_socket_power": 300},
        amdsmi_get_gpu_metrics_info=lambda _: {"throttle_status": False},
        amdsmi_get_gpu_asic_info=lambda _: {"market_name": "Made 250"},
        amdsmi_get_gpu_process_list=lambda _: [{"pid": 7, "name": "app"}],
        amdsmi_get_gpu_activity=no_answer,
        amdsmi_get_temp_metric=lambda *_: 60,
        AmdSmiTemperatureType=sensors,
        AmdSmiTemperatureMetric=sensors,
        AmdSmiException=NVMLError,
    )
    (found,) = Rocm(library).read()
    assert found == GpuReading("Made 250", None, 100 * 2**20, 2**36, 300.0, 60.0, False, frozenset((7,)))
    # An older one has numbers of something else there.
    library.amdsmi_get_gpu_process_list = lambda _: [7]
    (found,) = Rocm(library).read()
    assert found.pids is None and found.power_w == 300
    del library.amdsmi_get_gpu_process_list
    assert Rocm(library).read() == [found]


@pytest.mark.parametrize("module", ["no_such_module", "math"])
def test_a_library_that_does_not_work_keeps_nobody_from_being_watched(module: str) -> None:
    def opened() -> Nvml:
        return Nvml(importlib.import_module(module))

    assert present_gpus([Maker(os.devnull, opened)]).read() == {}
    assert present_gpus([Maker("/dev/no-such-device", opened)]).read() == {}


def test_amds_package_is_left_alone_where_it_would_print_that_its_library_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "amdsmi.py").write_text("print('Unable to find a library')\nraise KeyError('library')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert present_gpus([Maker(os.devnull, gpus.open_rocm)]).read() == {}
    assert capfd.readouterr() == ("", "")
    # Any library stands for it here: what the package prints of others is its own.
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / gpus.ROCM_LIBRARY).symlink_to(_struct.__file__)
    assert present_gpus([Maker(os.devnull, gpus.open_rocm)]).read() == {}
    assert capfd.readouterr() == ("Unable to find a library\n", "")


def test_while_a_library_is_opened_others_print_where_they_did(capsys: pytest.CaptureFixture[str]) -> None:
    def opened() -> MadeGpus:
        # What an agent's main thread, or the program that is watched from within, does meanwhile.
        other = threading.Thread(target=print, args=("ready",))
        other.start()
        other.join()
        return MadeGpus([COOL])

    assert len(present_gpus([Maker(os.devnull, opened)]).read()) == 1
    assert capsys.readouterr() == ("ready\n", "")


def test_an_agent_has_them_in_its_samples_and_findings() -> None:
    made = MadeGpus([COOL, SILENT], [busy_here(), SILENT])
    collector = Collector("here", gpus=Gpus([made]))
    collector.watch(Watched(os.getpid(), 0, 3))
    for _ in range(3):
        collector.period()
        time.sleep(0.01)
    around = collector.around([(0, 1 << 62)])
    batch = collector.due_sum(time.time_ns() // 1000, is_last=True)
    collector.close()
    assert around is not None and batch is not None and made.is_closed
    hot = around.gpu_rows()[around.gpu_rows()["gpu"] == 0]
    assert set(hot["pid"].tolist()) == {os.getpid()} and set(hot["foreign"].tolist()) == {1}
    (first, silent) = np.sort(batch.gpu_rows(), order="gpu")
    # The time of both periods goes by two clocks.
    assert first["busy_us"] == pytest.approx(0.52 * first["length_us"], rel=0.1)
    assert (first["memory_used_bytes"], first["temperature_c"]) == (2 * 10**9, 91)
    assert first["energy_mj"] == pytest.approx(0.4 * first["length_us"], rel=0.1)
    assert (silent["pid"], silent["busy_us"], silent["name"]) == (ANYBODY, 0, b"Old")
    found = [one.text for one in batch.findings if one.kind == "GPU throttled"]
    assert found and "GPU 0 (Made 100)" in found[0] and "in 100 % of the time, at up to 91 °C" in found[0]
    assert unpacked(packed(batch).rows) == batch
