"""Judgement of stored calls, of which only the runtimes are left, by a final model. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chimbuko.ad.detectors import Judgements, make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import severity_us
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import Model


@dataclass(frozen=True)
class FinalJudgements:
    """Judgements of calls; arrays, one element per call."""

    is_anomaly: npt.NDArray[np.bool_]
    severity_us: Float64Array
    judged: Judgements


class FinalJudge:
    """Judge that says of stored calls what a stream would have said that knew the model from the start.

    Parameters
    ----------
    model
        Model by the detector of ``config``.
    config
        Configuration of the run: thresholds, functions to ignore, and the least difference that counts.
    """

    def __init__(self, model: Model, config: AnalysisConfig) -> None:
        self._detector = make_detector(config)
        self._use_inclusive = config.metric == "inclusive"
        self._numbers = {function: number for number, function in enumerate(model.functions)}
        self._limits = FunctionLimits(self._detector, config)
        count = len(model.functions)
        self._limits.reserve(count)
        for (_, name), number in self._numbers.items():
            self._limits.name(number, name)
        if count:
            calls = model.table[:, self._detector.schema.slices["exclusive_us"].start]
            self._limits.update(np.arange(count), calls, model.table)

    def judge(
        self, program: str, function: str, exclusive_us: Float64Array, inclusive_us: Float64Array
    ) -> FinalJudgements | None:
        """Judge calls of one function, float64[calls] each; return None where too little is known of it to
        flag any.
        """
        number = self._numbers.get((program, function))
        if number is None or not np.isfinite(self._limits.edges_us[number]).any():
            return None
        runtimes_us = inclusive_us if self._use_inclusive else exclusive_us
        below = (self._limits.edges_us[number] <= runtimes_us[:, None]).sum(axis=1)
        is_anomaly = (below % 2 == 0) & (self._limits.is_judged[number] != 0)
        measures = np.repeat(self._limits.measures[number : number + 1], len(runtimes_us), axis=0)
        judged = self._detector.judge(measures, runtimes_us)
        return FinalJudgements(is_anomaly, severity_us(runtimes_us, judged.expected_us), judged)
