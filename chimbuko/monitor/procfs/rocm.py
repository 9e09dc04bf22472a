"""AMD's GPUs, by AMD SMI in the package ``amdsmi``, which comes with ROCm."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable
from typing import Any

from chimbuko.monitor.procfs.gpuspan import OF_OTHER_VERSIONS, GpuReading

DEVICE = "/dev/kfd"
LIBRARY = "libamd_smi.so"
MIB = 2**20


def opened() -> Rocm:
    """AMD SMI by its package; raises what either raises."""
    # Without the library the package prints so, into the output of whoever loads it, before it fails.
    if not any(map(_can_be_loaded, _places())):
        raise OSError(f"{LIBRARY} is missing")
    return Rocm(importlib.import_module("amdsmi"))


def _places() -> list[str]:
    """Return the places where the package looks for its library."""
    folders = [os.environ.get("ROCM_HOME"), os.environ.get("ROCM_PATH"), "/opt/rocm"]
    return [LIBRARY, *(f"{folder}/lib/{LIBRARY}" for folder in folders if folder)]


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
