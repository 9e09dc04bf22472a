"""Baseline of a run: the model that it begins with, by default that of its series."""

from __future__ import annotations

import msgspec

from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.provenance.history.remembering import series_baseline
from chimbuko.runtime.process.failures import words_of
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.environment import BASELINE


def with_baseline(run: RunDirectory, services: ServiceOptions, problems: list[str]) -> ServiceOptions:
    """Return how the services begin, with the model of the run's series where one is wanted and known.

    It is noted in the run's folder. What goes wrong adds a line to ``problems``, and the run begins as the
    first of its series.
    """
    if not services.is_of_series or services.load_model is not None:
        return services
    try:
        info = run.read_info()
        found = series_baseline(run, info)
        if found is None:
            return services
        facts = info.environment | {BASELINE: found.words}
        run.write_info(msgspec.structs.replace(info, environment=facts))
    except Exception as error:
        problems.append(f"the run begins without what its series has learned: {words_of(error)}")
        return services
    return msgspec.structs.replace(services, load_model=run.prior_path)
