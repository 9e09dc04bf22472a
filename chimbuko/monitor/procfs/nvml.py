"""NVIDIA's GPUs, by NVML in the package ``nvidia-ml-py``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from chimbuko.monitor.procfs.gpuspan import OF_OTHER_VERSIONS, GpuReading

DEVICE = "/dev/nvidiactl"
"""Device file that exists if the kernel's driver is loaded."""
HELD_BACK = 0x08 | 0x20 | 0x40 | 0x80
"""Bits of ``nvmlClocksEventReasons`` that count: slowed down by the hardware, by the driver or the hardware
for heat, or by the power supply. A GPU that has much to do keeps to its power limit; that does not count.
"""

T = TypeVar("T")


def opened() -> Nvml:
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
