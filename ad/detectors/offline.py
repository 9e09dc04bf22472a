"""Judgement of stored calls, of which only the runtimes are left, by a final model. No I/O."""

from __future__ import annotations

import numpy as np

from chimbuko.ad.detectors import Verdicts, make_detector
from chimbuko.ad.detectors.limits import FunctionLimits
from chimbuko.core.arrays import Float64Array
from chimbuko.core.calls.record import CLEARLY
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.model import Model


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
        detector = make_detector(config)
        self._use_inclusive = config.metric == "inclusive"
        self._numbers = {function: number for number, function in enumerate(model.functions)}
        self._limits = FunctionLimits(detector, config)
        count = len(model.functions)
        self._limits.reserve(count)
        for (_, name), number in self._numbers.items():
            self._limits.name(number, name)
        if count:
            calls = model.table[:, detector.schema.slices["exclusive_us"].start]
            self._limits.update(np.arange(count), calls, model.table)

    def judge(
        self,
        program: str,
        function: str,
        exclusive_us: Float64Array,
        inclusive_us: Float64Array,
        recorded_us: Float64Array | None = None,
    ) -> Verdicts | None:
        """Judge calls of one function, float64[calls] each; return None where too little is known of it to
        flag any.

        Parameters
        ----------
        recorded_us
            What comparable calls took when each was recorded, as far as that is known. It counts where it
            clearly differs from what the model expects of the function.
        """
        number = self._numbers.get((program, function))
        if number is None or not np.isfinite(self._limits.edges_us[number]).any():
            return None
        runtimes_us = inclusive_us if self._use_inclusive else exclusive_us
        timers = np.full(len(runtimes_us), number)
        if recorded_us is None:
            return self._limits.judge(timers, runtimes_us)
        recorded = recorded_us

        def expectation(of_function_us: Float64Array) -> Float64Array:
            is_lower, is_higher = recorded <= of_function_us / CLEARLY, recorded >= of_function_us * CLEARLY
            return np.where((recorded > 0.0) & (is_lower | is_higher), recorded, of_function_us)

        return self._limits.judge(timers, runtimes_us, expectation)
