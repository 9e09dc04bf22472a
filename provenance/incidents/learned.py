"""What a run's detector has learned of its functions, as far as findings of what recurs are made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chimbuko.causes.incidents.drift import Drift, drifts_of
from chimbuko.causes.incidents.slowmodes import SlowMode, slow_modes_of
from chimbuko.core.arrays import Float64Array
from chimbuko.core.statistics.schema import schema_of
from chimbuko.provenance.query.run import Provenance


@dataclass(frozen=True)
class Learned:
    """Of functions, in the same order."""

    functions: list[tuple[str, str]]
    """Names of program and function."""
    counts: Float64Array
    """f8[functions, buckets]: how many calls took how long."""
    exclusive: Float64Array
    """f8[functions, 7]: moments of the exclusive runtime."""
    mean_us: Float64Array
    """f8[functions]: of the runtime by which calls are judged."""
    drift: Float64Array
    """f8[functions]: how many times as long they take now as at first."""

    @property
    def slow_modes(self) -> list[SlowMode]:
        """Functions that take much longer now and then."""
        return slow_modes_of(self.functions, self.counts, self.exclusive)

    @property
    def drifts(self) -> list[Drift]:
        """Functions that became slower."""
        return drifts_of(self.functions, self.counts, self.exclusive[:, 0], self.mean_us, self.drift)


def learned(provenance: Provenance) -> Learned | None:
    """What is stored of it; None where the detector does not count runtimes, or nothing is known yet.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    config = provenance.run().config
    columns = schema_of(config.detector).slices
    if "buckets" not in columns:
        return None
    programs = provenance.programs()
    statistics = {(one.program, one.name): one for one in provenance.function_statistics()}
    models = [one for one in provenance.models.newest() if (one.program, one.name) in statistics]
    if not models:
        return None
    rows = np.stack([np.frombuffer(model.row)[: columns["buckets"].stop] for model in models])
    known = [statistics[model.program, model.name] for model in models]
    return Learned(
        functions=[(programs.get(one.program, str(one.program)), one.name) for one in known],
        counts=rows[:, columns["buckets"]],
        exclusive=rows[:, columns["exclusive_us"]],
        mean_us=np.array([getattr(one, f"{config.metric}_mean_us") for one in known]),
        drift=np.array([one.drift for one in known]),
    )
