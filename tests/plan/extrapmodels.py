"""Fits models with Extra-P, in the interpreter that has it; reads points as JSON and writes predictions.

Apart from all else: it needs an older numpy.
"""

import json
import sys

import numpy as np
from extrap.entities.coordinate import Coordinate
from extrap.entities.measurement import Measurement
from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler
from extrap.modelers.single_parameter.basic import SingleParameterModeler


def main() -> None:
    predictions = []
    for case in json.load(sys.stdin):
        measurements = [
            Measurement(Coordinate(*point), None, None, times)
            for point, times in zip(case["points"], case["times_s"], strict=True)
        ]
        if len(case["points"][0]) == 1:
            modeler = SingleParameterModeler()
            modeler.allow_negative_exponents = True
        else:
            modeler = MultiParameterModeler()
            modeler.single_parameter_modeler.allow_negative_exponents = True
        function = modeler.create_model(measurements).hypothesis.function
        columns = np.array(case["at"], float).T
        predicted = function.evaluate(columns[0] if len(columns) == 1 else columns)
        predictions.append(np.broadcast_to(predicted, len(case["at"])).tolist())
    json.dump(predictions, sys.stdout)


main()
