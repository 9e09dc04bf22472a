"""Pictures of models and predictions, as PNG. Needs matplotlib, which is an extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chimbuko.core.errors import ConfigError
from chimbuko.plan.fitting import Fit
from chimbuko.plan.normalform import INTERVAL
from chimbuko.plan.prediction import Advice
from chimbuko.plan.workflow import Workflow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 12
_MEASURED, _PREDICTED, _TASKS = "#444444", "#0072b2", "#d55e00"


def plot_fits(fits: Sequence[Fit], path: Path) -> None:
    """Times and models: over the parameter where there is one, else predicted against measured.

    Raises
    ------
    ConfigError
        matplotlib is not installed, or the file cannot be written.
    """
    figure = _figure(4.2 * len(fits), 3.6)
    for at, one in enumerate(fits, start=1):
        axes = figure.add_subplot(1, len(fits), at)
        axes.set_title(one.measured.part)
        if len(one.measured.parameters) == 1:
            _draw_curve(axes, one)
        else:
            _draw_agreement(axes, one.measured.time_s, one.model.form.values(one.measured.columns()))
    _save(figure, path)


def plot_agreement(measured_s: Sequence[float], predicted_s: Sequence[float], path: Path) -> None:
    """Whole runs, predicted against measured; raises as ``plot_fits``."""
    figure = _figure(4.4, 4.2)
    _draw_agreement(figure.add_subplot(), np.array(measured_s), np.array(predicted_s))
    _save(figure, path)


def plot_split(advice: Advice, workflow: Workflow, path: Path) -> None:
    """Plot the times of the best placements, and of all tasks inside, and how they divide resources; raises
    alike.
    """
    best = advice.ranked[:MOST_BARS]
    shown = [*(one for one in advice.ranked[MOST_BARS:] if not one.placement.groups), *best[::-1]]
    figure = _figure(9.0, 1.4 + 0.3 * len(shown))
    times, split = figure.subplots(1, 2, sharey=True)
    labels = [str(one.placement) for one in shown]
    times.barh(labels, [one.total_s for one in shown], color=_PREDICTED)
    times.set_xlabel("predicted seconds")
    beside = workflow.parameter in workflow.application_constants
    taken = np.array([one.placement.taken for one in shown])
    own = np.zeros(len(shown)) if beside else workflow.total - taken
    split.barh(labels, own, color=_PREDICTED, label="application")
    split.barh(labels, taken, left=own, color=_TASKS, label="tasks")
    split.set_xlabel(workflow.parameter)
    split.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    _save(figure, path)


def _draw_curve(axes: Axes, one: Fit) -> None:
    (name,) = one.measured.parameters
    low, high = one.measured.ranges[name]
    points = {name: np.geomspace(low, high, 100)}
    curves = np.stack([np.broadcast_to(form.values(points), 100) for form in one.model.replicates])
    bounds = np.quantile(curves, INTERVAL, axis=0)
    axes.fill_between(points[name], *bounds, color=_PREDICTED, alpha=0.2, label="95 %")
    axes.plot(
        points[name], np.broadcast_to(one.model.form.values(points), 100), color=_PREDICTED, label="model"
    )
    for (value,), times_s in zip(one.measured.points.tolist(), one.measured.repetitions, strict=True):
        axes.plot([value] * len(times_s), times_s, "o", color=_MEASURED, markersize=4)
    axes.set_xscale("log", base=2)
    values = sorted(one.measured.points[:, 0].tolist())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xlabel(name)
    axes.set_ylabel("seconds")
    axes.legend()


def _draw_agreement(axes: Axes, measured_s: np.ndarray, predicted_s: np.ndarray) -> None:
    axes.plot(measured_s, np.broadcast_to(predicted_s, measured_s.shape), "o", color=_PREDICTED, markersize=4)
    ends = [float(min(measured_s.min(), predicted_s.min())), float(max(measured_s.max(), predicted_s.max()))]
    axes.plot(ends, ends, color=_MEASURED, linewidth=1)
    axes.set_xlabel("measured seconds")
    axes.set_ylabel("predicted seconds")


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("a picture needs matplotlib: pip install 'chimbuko[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, format="png", dpi=150)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
