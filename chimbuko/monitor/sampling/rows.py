"""Rows of samples: each is what one thread, core, or the node did in an interval. Times are µs since 1970."""

from __future__ import annotations

import numpy as np

VERSION = 2
"""Version of all rows: it changes with any of them."""

_INTERVAL = [("begin_us", "<i8"), ("length_us", "<u4")]

THREAD = np.dtype(
    [
        *_INTERVAL,
        ("pid", "<i4"),
        ("tid", "<i4"),
        ("ran_us", "<u4"),
        ("waited_us", "<u4"),  # while it could have run and its core was another's
        ("system_us", "<u4"),  # of what it ran; from the kernel's ticks of 10 ms
        ("minor_faults", "<u4"),
        ("major_faults", "<u4"),
        ("slices", "<u4"),  # how often it was put on a core
        ("migrations", "<u2"),  # how often it was found on another core than before
        ("core", "<i2"),  # where it ran last; -1 if that is not known
        ("call", "<i2"),  # system call that it slept in at the end (procfs.systemcalls)
        ("state", "S1"),  # at the end, the kernel's letter
    ]
)
"""A thread."""

CORE = np.dtype(
    [
        *_INTERVAL,
        ("cpu", "<i2"),
        *((name, "<u4") for name in ("user_us", "system_us", "idle_us", "steal_us")),
        ("own_us", "<u4"),  # of watched threads that ran there last
    ]
)
"""A hardware thread."""

OTHER = np.dtype(
    [
        *_INTERVAL,
        ("pid", "<i4"),
        ("core", "<i2"),  # where it ran last
        ("ran_us", "<u4"),
        ("name", "S16"),
        ("user", "S16"),
    ]
)
"""A process that is not watched, and ran meanwhile."""

NODE = np.dtype(
    [
        *_INTERVAL,
        ("memory_bytes", "<i8"),
        ("available_bytes", "<i8"),
        *((name, "<u4") for name in ("cpu_stall_us", "memory_stall_us", "io_stall_us")),
        ("throttled_us", "<u4"),  # a control group of watched processes was kept from its cores
        ("group_used_bytes", "<i8"),  # of the fullest of their control groups; 0 without a limit
        ("group_limit_bytes", "<i8"),
    ]
)
"""The node. Stalls: for how long some task of it waited for such a thing."""

GPU = np.dtype(
    [
        *_INTERVAL,
        ("gpu", "<i2"),
        ("pid", "<i4"),  # the watched process that uses it; ANYBODY, NOBODY
        ("foreign", "<u2"),  # how many processes use it that are not watched
        ("busy_us", "<u4"),  # a kernel ran on it
        ("throttled_us", "<u4"),  # it was slowed down for heat, or by its power supply
        ("memory_used_bytes", "<i8"),
        ("memory_total_bytes", "<i8"),
        ("energy_mj", "<u8"),
        ("temperature_c", "<i2"),
        ("name", "S32"),
    ]
)
"""A GPU; 0 is also what its library does not say."""

ANYBODY, NOBODY = 0, -1
"""Several watched processes use a GPU, or it is not known who; none of those that use it is watched."""
