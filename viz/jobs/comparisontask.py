"""What changed from other runs to this one, as a long question."""

from __future__ import annotations

from chimbuko.viz.api.endpoints.comparison import ComparisonAnswer, ComparisonParameters, compared
from chimbuko.viz.jobs.task import JobRun, Progress, task


@task("comparison")
def comparison(run: JobRun, wanted: ComparisonParameters, progress: Progress) -> ComparisonAnswer:
    """Shifts of runtimes, new functions, anomalies, ranks."""
    return compared(run.directory, run.provenance, wanted, progress)
