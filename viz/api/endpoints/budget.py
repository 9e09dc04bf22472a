"""Budget of the run: where all its time went, and what of it was lost."""

from __future__ import annotations

from chimbuko.provenance.budget.budget import Budget
from chimbuko.provenance.budget.runbudget import run_budget
from chimbuko.viz.api.endpoint import Answer, ServedRun, get


class BudgetAnswer(Answer, frozen=True, kw_only=True):
    """Budget of the run, as far as it has come."""

    budget: Budget


@get("/budget")
def budget(run: ServedRun) -> BudgetAnswer:
    """Return where the time of all threads went, and what of it was lost."""
    return BudgetAnswer(budget=run_budget(run.provenance))
