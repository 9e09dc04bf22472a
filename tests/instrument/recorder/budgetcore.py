"""The recorder's budget, called from Python: what its C core decides after a series of observations."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimbuko.instrument.recorder.library import FOLDER

KEPT, LEFT_OUT, SAMPLED = 1, 2, 3
LOOK_NS = 100_000_000
CALL_PRICE_NS = 400.0
SAMPLE_CALLS = 64


class Estimate(ctypes.Structure):
    _fields_ = [
        ("calls_per_s", ctypes.c_double),
        ("square_us2", ctypes.c_double),
        ("weight", ctypes.c_double),
        ("looks_out", ctypes.c_uint32),
        ("credit", ctypes.c_uint32),
        ("decision", ctypes.c_uint32),
        ("is_poll", ctypes.c_uint32),
    ]


class Observation(ctypes.Structure):
    _fields_ = [
        ("calls", ctypes.c_uint64),
        ("counted_ns", ctypes.c_int64),
        ("since_ns", ctypes.c_int64),
        ("recorded", ctypes.c_uint64),
        ("squares_us2", ctypes.c_double),
    ]


class _Budget(ctypes.Structure):
    _fields_ = [("overhead", ctypes.c_double), ("next", ctypes.c_uint32)]


class _Beside(ctypes.Structure):
    _fields_ = [("unexpected_ns", ctypes.c_double), ("spent_ns", ctypes.c_int64)]


@dataclass(frozen=True)
class Behaviour:
    """How a function behaves in a look: its calls, and the runtime of each."""

    calls: int
    runtime_us: float


class Core:
    """The core for some functions, which are observed as the recorder does."""

    def __init__(self, library: Path, overhead: float, functions: int) -> None:
        self._decide: Any = ctypes.CDLL(str(library)).decide
        self._decide.restype = None
        self._budget = _Budget(overhead, 0)
        self.estimates = (Estimate * functions)()

    def look(self, behaviours: Sequence[Behaviour], threads: int = 1) -> list[int]:
        """Let a look pass; return the decisions for the next one."""
        seen = (Observation * len(behaviours))()
        for row, behaviour in enumerate(behaviours):
            estimate = self.estimates[row]
            is_first = estimate.decision == 0
            recorded = min(behaviour.calls, SAMPLE_CALLS if is_first else estimate.credit)
            squares_us2 = recorded * behaviour.runtime_us**2
            seen[row] = Observation(behaviour.calls, LOOK_NS, LOOK_NS, recorded, squares_us2)
        self._decide(
            ctypes.byref(self._budget),
            self.estimates,
            seen,
            ctypes.c_uint32(len(seen)),
            ctypes.c_uint32(threads),
        )
        return [estimate.decision for estimate in self.estimates]

    def planned_calls(self) -> float:
        """Calls that are expected to be recorded in the next look."""
        kept = sum(e.calls_per_s for e in self.estimates if e.decision == KEPT) * LOOK_NS * 1e-9
        return kept + sum(e.credit for e in self.estimates if e.decision == SAMPLED)


class Beside:
    """The core's knowledge of what recording costs beside a program of one thread."""

    def __init__(self, library: Path) -> None:
        self._left: Any = ctypes.CDLL(str(library)).left_for_calls
        self._left.restype = ctypes.c_double
        self._beside = _Beside()
        self._spent_ns = 0

    def look(self, overhead: float, spent_ns: int, recorded: int) -> float:
        """Let a look pass in which so much was spent, and so many calls recorded; return what is left."""
        self._spent_ns += spent_ns
        left: float = self._left(
            ctypes.byref(self._beside),
            ctypes.c_double(overhead),
            ctypes.c_int64(self._spent_ns),
            ctypes.c_uint64(recorded),
            ctypes.c_int64(LOOK_NS),
        )
        return left


def build_core(folder: Path) -> Path:
    """Compile the core alone, which calls nothing but the sort of the C library."""
    library = folder / "libbudget.so"
    words = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Dvisibility(x)="]
    subprocess.run([*words, f"-I{FOLDER}", str(FOLDER / "budget.c"), "-o", str(library)], check=True)
    return library
