"""Settings of the analysis: frozen values, made once at the command line and handed on."""

from __future__ import annotations

import msgspec

from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError

METRICS = ("exclusive", "inclusive")
"""Kinds of runtime that can be judged; the first is the default."""


class DetectorEntry(msgspec.Struct, frozen=True):
    """Detector: the place of its class, its usual threshold, and what it learns."""

    maker: str
    """Class of the detector, as ``module:Class``; a module that begins with a dot is in
    ``chimbuko.ad.detectors``.
    """
    default_threshold: float
    """Threshold in its own measure where the user gives none."""
    unit: str = ""
    """Unit of its thresholds and scores; empty if they are no distances."""
    learns_buckets: bool = True
    """Whether it needs counts of runtimes in buckets, beside moments."""


DETECTORS = {
    "robust": DetectorEntry(".robust:Robust", 4.5, "σ"),
    "sstd": DetectorEntry(".sstd:Sstd", 6.0, "σ", learns_buckets=False),
    "hbos": DetectorEntry(".histograms:Hbos", 0.99),
    "copod": DetectorEntry(".histograms:Copod", 0.99),
}
"""Detectors of our own by name; the first is the default."""


def detector_entry(name: str) -> DetectorEntry | None:
    """Return a detector of our own or of a plugin; None where this installation has none of that name.

    Raises
    ------
    ConfigError
        The plugin cannot be loaded.
    """
    if name in DETECTORS:
        return DETECTORS[name]
    is_declared = name in plugins.declared("detectors")
    return plugins.load("detectors", name, DetectorEntry) if is_declared else None


LEAST_CALLS = 38
"""Number of calls of a function before one of them can be flagged: at 6σ no value that is itself in the
statistics lies outside before the 38th, and a tail that is estimated from fewer calls is a guess.
"""
FEW_CALLS = 3
"""Number of calls from which the detector ``robust`` flags one that is far beyond nearly all others."""


def least_calls(detector: str) -> int:
    """Return the number of calls of a function from which a detector judges them."""
    return FEW_CALLS if detector == "robust" else LEAST_CALLS


MOST_PARTS = 16
MOST_WRITERS = 16
MOST_LEAVES = 64
"""Maximum number of parts of the parameter server: what more could merge, a broker cannot carry."""


class AnalysisConfig(msgspec.Struct, frozen=True):
    """Settings of the analysis: how calls are judged and what is kept of the abnormal ones."""

    detector: str = next(iter(DETECTORS))
    threshold: float | None = None
    """Distance from ordinary at which a call is abnormal, in the detector's own measure; None for its usual
    one.
    """
    thresholds: tuple[tuple[str, float], ...] = ()
    """Thresholds of single functions: (name or pattern, threshold); the first that matches counts."""
    ignore: tuple[str, ...] = ()
    """Names or patterns of functions that are never flagged."""
    metric: str = "exclusive"
    """Kind of runtime that is judged: ``exclusive`` or ``inclusive``."""
    fast_side: bool = False
    """Whether calls that are abnormally short are flagged too."""
    min_anomaly_us: int = 1000
    """Minimum difference in µs from what was expected of the function for a call to be flagged: 0.1 % of a
    trace period, and about what an operating system takes for itself now and then.
    """
    record_from_step: int = 0
    record_to_step: int | None = None
    """Last step of which records are made; statistics are kept of all steps. None for no limit."""
    is_frozen: bool = False
    """Whether calls are judged by a loaded model, and by nothing learned since."""
    window_calls: int = 5
    """Number of calls kept before and after an abnormal one, in order of entry on its thread (the paper's k).
    """
    period_us: int = 1_000_000
    """Length of an epoch of learning, in µs of trace time; TAU's trace period."""
    lockstep: bool = False
    """Whether streams wait for each other at the end of each epoch, so that flags do not depend on timing."""
    watched_counters: tuple[str, ...] = ("monitoring:",)
    """Prefixes of counters that describe the node rather than a call."""
    counter_fields: tuple[tuple[str, str], ...] = ()
    """Names that watched counters get in the state of a node: (counter, field)."""
    uncorrelated: tuple[str, ...] = ()
    """Names or patterns of functions whose correlation ids are not those of launches on a GPU."""
    max_anomalies_per_function: int = 50
    """Maximum number of recorded anomalies of a function in a stream, per period of trace time: of more the
    most severe are recorded, and the others counted. A function that was quiet may have ten times as many
    at once.
    """
    max_messages: int = 100
    max_counters: int = 100
    final_after_steps: int = 10
    """Number of steps after which a record whose window has not filled is final as it is."""
    spool_limit_bytes: int = 64 << 20
    """Size of a stream's spool beyond which it keeps the highest severities and counts the rest."""
    recorder_bytes: int = 4 << 20
    """Size of a stream's flight recorder, which holds the newest raw rows; 0 for none."""
    server_parts: int = 1
    """Number of processes of the parameter server, up to 16, where one is not enough for all ranks."""
    leaf_servers: int = 0
    """Number of servers, up to 64, that each merge what some of the agents learn, for the parameter server;
    0 for none.
    """
    store_writers: int = 1
    """Number of processes, up to 16, that write into the store, each what some of the agents find."""
    node_samples: bool = True
    """Whether agents of a live run sample the processes of their ranks: incidents can have causes in the
    node.
    """

    def check_detector(self) -> None:
        """Refuse an unknown detector or metric, and a threshold that is not positive.

        Raises
        ------
        ConfigError
            There is one.
        """
        if self.metric not in METRICS:
            raise ConfigError(f"metric {self.metric!r} is unknown; choose one of {', '.join(METRICS)}")
        if detector_entry(self.detector) is None:
            known = ", ".join([*DETECTORS, *plugins.declared("detectors")])
            raise ConfigError(f"detector {self.detector!r} is unknown; choose one of {known}")
        for threshold in (self.threshold, *(threshold for _, threshold in self.thresholds)):
            if threshold is not None and not threshold > 0:
                raise ConfigError(f"threshold {threshold} is not possible; it must be positive")

    @property
    def usual_threshold(self) -> float:
        """Threshold of functions for which no other one is given."""
        if self.threshold is not None:
            return self.threshold
        # A run may have been judged by a plugin that is not installed here.
        return (detector_entry(self.detector) or DETECTORS["robust"]).default_threshold

    def records_step(self, step: int) -> bool:
        """Return whether records are made of calls that ended in this step."""
        return self.record_from_step <= step and (self.record_to_step is None or step <= self.record_to_step)
