"""What is sent of something that is wrong with a quantity that programs publish."""

from __future__ import annotations

import msgspec


class MetricAlert(msgspec.Struct, frozen=True, tag_field="kind", tag="metric"):
    """What is sent of it; each finding of a run is worth one alert."""

    run: str
    """Its id."""
    finding: str
    """Its id in the run."""
    problem: str
    """``global drift``, ``local drift``, ``departure`` or ``not a number``."""
    quantity: str
    ranks: tuple[int, ...]
    """Those that stand out; none where all are alike."""
    since_step: int
    """Step of the program at which it began."""
    step: int
    """At which it was found."""
    found_us: int
    """When that step was published, in µs since the epoch."""
    sentence: str
    """What is wrong, in words."""
    dashboard: str
    """Address of its page, without the token; empty where there is no dashboard."""
