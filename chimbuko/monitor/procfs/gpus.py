"""GPUs of this node, found through their makers' libraries: NVIDIA's by NVML in the package ``nvidia-ml-py``,
AMD's by AMD SMI in the package ``amdsmi``, which comes with ROCm.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from chimbuko.monitor.procfs.gpuspan import OF_OTHER_VERSIONS, GpuProvider, GpuReading


class Maker(NamedTuple):
    """Maker whose GPUs can be read."""

    device: str
    """A file that is there where the kernel's driver is."""
    open: Callable[[], GpuProvider]
    """May raise anything. It must leave standard output alone, also for a moment: others print there."""


NVIDIA_DEVICE = "/dev/nvidiactl"
"""Device file that exists if the kernel's driver is loaded."""
HELD_BACK = 0x08 | 0x20 | 0x40 | 0x80
"""Bits of ``nvmlClocksEventReasons`` that count: slowed down by the hardware, by the driver or the hardware
for heat, or by the power supply. A GPU that has much to do keeps to its power limit; that does not count.
"""

T = TypeVar("T")


def open_nvml() -> Nvml:
    """Open NVML by its package; errors of both are raised."""
    return Nvml(importlib.import_module("pynvml"))


class Nvml:
    """NVML, as long as it is open.

    Parameters
    ----------
    library
        The module ``pynvml``.

    Raises
    ------
    Exception
        An error of the library: there is no driver, or none that it can speak with.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvmlInit()
        self._devices = [
            library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())
        ]

    def read(self) -> list[GpuReading]:
        """Return all GPUs, in the order of their numbers."""
        return [self._one(device) for device in self._devices]

    def close(self) -> None:
        """End it."""
        self._said(self._library.nvmlShutdown)

    def _one(self, device: Any) -> GpuReading:
        library, said = self._library, self._said
        name = said(lambda: library.nvmlDeviceGetName(device)) or "NVIDIA"
        memory = said(lambda: library.nvmlDeviceGetMemoryInfo(device))
        reasons = said(lambda: int(library.nvmlDeviceGetCurrentClocksThrottleReasons(device)))
        return GpuReading(
            name=name.decode(errors="replace") if isinstance(name, bytes) else name,
            busy_percent=said(lambda: float(library.nvmlDeviceGetUtilizationRates(device).gpu)),
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            power_w=said(lambda: library.nvmlDeviceGetPowerUsage(device) / 1000),
            temperature_c=said(
                lambda: float(library.nvmlDeviceGetTemperature(device, library.NVML_TEMPERATURE_GPU))
            ),
            is_throttled=None if reasons is None else bool(reasons & HELD_BACK),
            pids=said(
                lambda: frozenset(one.pid for one in library.nvmlDeviceGetComputeRunningProcesses(device))
            ),
        )

    def _said(self, ask: Callable[[], T]) -> T | None:
        """Return an answer; None if this device has none, or is gone, or the library has no such
        question.
        """
        try:
            return ask()
        except (self._library.NVMLError, *OF_OTHER_VERSIONS):
            return None


AMD_DEVICE = "/dev/kfd"
ROCM_LIBRARY = "libamd_smi.so"
MIB = 2**20


def open_rocm() -> Rocm:
    """AMD SMI by its package; raises what either raises."""
    # Without the library the package prints so, into the output of whoever loads it, before it fails.
    if not any(map(_can_be_loaded, _places())):
        raise OSError(f"{ROCM_LIBRARY} is missing")
    return Rocm(importlib.import_module("amdsmi"))


def _places() -> list[str]:
    """Return the places where the package looks for its library."""
    folders = [os.environ.get("ROCM_HOME"), os.environ.get("ROCM_PATH"), "/opt/rocm"]
    return [ROCM_LIBRARY, *(f"{folder}/lib/{ROCM_LIBRARY}" for folder in folders if folder)]


def _can_be_loaded(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


class Rocm:
    """AMD SMI, as long as it is open.

    Parameters
    ----------
    library
        The module ``amdsmi``.

    Raises
    ------
    Exception
        An error of the library: there is no driver.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        library.amdsmi_init()
        self._devices = list(library.amdsmi_get_processor_handles())

    def read(self) -> list[GpuReading]:
        """Return all GPUs, in the library's order."""
        return [self._one(device) for device in self._devices]

    def close(self) -> None:
        """End it."""
        self._said(lambda: self._library.amdsmi_shut_down())

    def _one(self, device: Any) -> GpuReading:
        library, said = self._library, self._said
        memory = said(lambda: library.amdsmi_get_gpu_vram_usage(device)) or {}
        power = said(lambda: library.amdsmi_get_power_info(device)) or {}
        # Which of both a GPU knows depends on its generation.
        watts = [_number(power.get(name)) for name in ("current_socket_power", "average_socket_power")]
        used, total = (_number(memory.get(name)) for name in ("vram_used", "vram_total"))
        throttled = (said(lambda: library.amdsmi_get_gpu_metrics_info(device)) or {}).get("throttle_status")
        asic = said(lambda: library.amdsmi_get_gpu_asic_info(device)) or {}
        return GpuReading(
            name=str(asic.get("market_name") or "AMD"),
            busy_percent=_number(
                (said(lambda: library.amdsmi_get_gpu_activity(device)) or {}).get("gfx_activity")
            ),
            memory_used_bytes=None if used is None else int(used * MIB),
            memory_total_bytes=None if total is None else int(total * MIB),
            power_w=next((value for value in watts if value is not None), None),
            temperature_c=_number(
                said(
                    lambda: library.amdsmi_get_temp_metric(
                        device,
                        library.AmdSmiTemperatureType.HOTSPOT,
                        library.AmdSmiTemperatureMetric.CURRENT,
                    )
                )
            ),
            is_throttled=throttled if isinstance(throttled, bool) else None,
            pids=said(
                lambda: frozenset(int(one["pid"]) for one in library.amdsmi_get_gpu_process_list(device))
            ),
        )

    def _said(self, ask: Callable[[], Any]) -> Any:
        """Return an answer; None if this device has none, or is gone, or the library has no such
        question.
        """
        try:
            return ask()
        except (self._library.AmdSmiException, *OF_OTHER_VERSIONS):
            return None


def _number(value: object) -> float | None:
    """The library says ``N/A`` in place of a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


MAKERS = (Maker(NVIDIA_DEVICE, open_nvml), Maker(AMD_DEVICE, open_rocm))


class Gpus:
    """All GPUs of a node."""

    def __init__(self, providers: Sequence[GpuProvider]) -> None:
        self._providers = providers

    def read(self) -> dict[int, GpuReading]:
        """Return the readings by GPU number; numbers of one maker follow each other."""
        found = [reading for provider in self._providers for reading in provider.read()]
        return dict(enumerate(found))

    def close(self) -> None:
        """Close the readers; nothing is read afterwards."""
        for provider in self._providers:
            provider.close()


def present_gpus(makers: Sequence[Maker] = MAKERS) -> Gpus:
    """Return the GPUs whose driver is loaded and whose package is installed and works."""
    providers = []
    for maker in makers:
        if not os.path.exists(maker.device):
            continue
        # A library that is too old for its driver, or broken, must not keep a program from being watched.
        try:
            providers.append(maker.open())
        except Exception:
            continue
    return Gpus(providers)
