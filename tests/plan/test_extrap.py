"""Our search for models beside Extra-P's, the tool that the paper fitted its models with."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest

from chimbuko.plan.fitting import fit, sampling_plan
from tests.places import ROOT
from tests.plan.published import ONE_PARAMETER, QE_ON_CORES, between, sampled

PYTHON = os.environ.get("CHIMBUKO_EXTRAP_PYTHON")
"""Interpreter of a virtual environment with ``extrap``, which needs numpy before 2 and Qt."""
CASES = (*ONE_PARAMETER, QE_ON_CORES)
SEEDS = range(5)


@pytest.mark.thorough
@pytest.mark.skipif(PYTHON is None, reason="CHIMBUKO_EXTRAP_PYTHON names no interpreter that has extrap")
@pytest.mark.parametrize(("noise", "most"), [(0.0, 1e-6), (0.02, 0.05)])
def test_predictions_are_at_least_as_good_as_those_of_extra_p(noise: float, most: float) -> None:
    cases, ours, truths = [], [], []
    for published in CASES:
        for seed in SEEDS:
            points = sampled(published, sampling_plan(published.values), noise, 5, seed)
            at = between(published, 30, seed)
            truths.append(published.form.values(at))
            ours.append(np.broadcast_to(fit(points).model.form.values(at), 30))
            cases.append(
                {
                    "points": points.points.tolist(),
                    "times_s": [times.tolist() for times in points.repetitions],
                    "at": np.stack([at[name] for name in points.parameters], axis=1).tolist(),
                }
            )
    done = subprocess.run(
        [str(PYTHON), str(ROOT / "tests" / "insitu" / "extrapmodels.py")],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    theirs = np.array(json.loads(done.stdout))
    errors, errors_of_theirs = (abs(np.array(one) / np.array(truths) - 1.0) for one in (ours, theirs))
    print(
        f"worst error {errors.max():.4f} beside {errors_of_theirs.max():.4f}, "
        f"mean {errors.mean():.5f} beside {errors_of_theirs.mean():.5f}"
    )
    assert errors.max() < most
    assert errors.mean() <= errors_of_theirs.mean() + 1e-6
