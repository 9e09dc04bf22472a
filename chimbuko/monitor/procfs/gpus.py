"""GPUs of this node, found through their makers' libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from chimbuko.monitor.procfs import nvml, rocm
from chimbuko.monitor.procfs.gpuspan import GpuProvider, GpuReading


class Maker(NamedTuple):
    """Maker whose GPUs can be read."""

    device: str
    """A file that is there where the kernel's driver is."""
    open: Callable[[], GpuProvider]
    """May raise anything. It must leave standard output alone, also for a moment: others print there."""


MAKERS = (Maker(nvml.DEVICE, nvml.opened), Maker(rocm.DEVICE, rocm.opened))


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
