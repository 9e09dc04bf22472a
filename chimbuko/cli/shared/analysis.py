"""The options of the analysis, and the configuration that they and a file make."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from chimbuko.cli.shared.pluginchoice import PluginChoice
from chimbuko.core.config import DETECTORS, METRICS, MOST_PARTS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import parse_duration_us
from chimbuko.launcher.options import AnalysisOptions

_STEPS = re.compile(r"(\d*):(\d*)")


def analysis_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the analysis; it gets them as ``analysis``, an ``AnalysisOptions``."""

    @functools.wraps(command)
    def with_analysis(**values: Any) -> None:
        given = {name: values.pop(name) for name in _NAMES}
        command(analysis=_options(**given), **values)

    wrapped: Callable[..., None] = with_analysis
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _usual_thresholds() -> Iterator[str]:
    for name, entry in DETECTORS.items():
        yield f"{entry.default_threshold:g} {entry.unit}".rstrip() + f" for {name}"


_OPTIONS = (
    click.option(
        "--config", type=click.Path(path_type=Path), help="TOML file with settings; options given here win."
    ),
    click.option(
        "--detector",
        type=PluginChoice(DETECTORS, "detectors"),
        help=f"Detector that decides which calls are abnormal; default {AnalysisConfig().detector}.",
    ),
    click.option(
        "--threshold",
        type=float,
        help="How far from normal a call must be to be flagged; default "
        + ", ".join(_usual_thresholds())
        + ".",
    ),
    click.option(
        "--threshold-of",
        "thresholds",
        multiple=True,
        metavar="NAME=VALUE",
        help="Threshold of one function, or of all functions that match a pattern with * and ?. Repeatable.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        metavar="NAME",
        help="Never flag this function, or those that match a pattern. Repeatable.",
    ),
    click.option("--metric", type=click.Choice(METRICS), help="Runtime that is judged; default exclusive."),
    click.option(
        "--fast-side/--no-fast-side",
        default=None,
        help="Flag abnormally short calls, too; by default they are not.",
    ),
    click.option(
        "--min-anomaly",
        metavar="DURATION",
        help="Do not flag calls that differ by less than this from the expected runtime: 200us, 5ms; "
        "default 1ms.",
    ),
    click.option(
        "--max-per-function",
        "max_anomalies_per_function",
        type=int,
        help="Most anomalies of one function that are recorded per rank and period. The most severe are "
        "recorded, the others only counted; default 50.",
    ),
    click.option("--window", type=int, help="Calls kept before and after each anomaly; default 5."),
    click.option("--period", type=float, help="Seconds between two steps of the trace; default 1."),
    click.option(
        "--record-steps",
        metavar="FIRST:LAST",
        help="Record only calls of these steps; either end may be left out.",
    ),
    click.option(
        "--node-samples/--no-node-samples",
        default=None,
        help="Whether agents of a live run sample the processes of their ranks, for causes in the node; by "
        "default they do.",
    ),
    click.option(
        "--server-parts",
        type=click.IntRange(1, MOST_PARTS),
        help="Processes that the parameter server consists of; 'chimbuko model pipeline' says how many ranks "
        "one takes. Default 1.",
    ),
    click.option(
        "--load-model",
        type=click.Path(path_type=Path),
        help="Begin with the model that an earlier run learned.",
    ),
    click.option("--freeze/--no-freeze", default=None, help="Judge by the loaded model and learn nothing."),
    click.option(
        "--save-model",
        type=click.Path(path_type=Path),
        help="Write a copy of the final model, which is also kept in the run's folder.",
    ),
    click.option(
        "--relabel/--no-relabel",
        default=True,
        help="Whether recorded calls are judged again at the end, by the final model; by default they are.",
    ),
)
_NAMES = (
    *("config", "detector", "threshold", "thresholds", "ignore", "metric", "fast_side", "min_anomaly"),
    "max_anomalies_per_function",
    *("window", "period", "record_steps", "node_samples", "server_parts"),
    *("load_model", "freeze", "save_model", "relabel"),
)


def _options(
    config: Path | None,
    thresholds: tuple[str, ...],
    ignore: tuple[str, ...],
    min_anomaly: str | None,
    window: int | None,
    period: float | None,
    record_steps: str | None,
    load_model: Path | None,
    freeze: bool | None,
    save_model: Path | None,
    relabel: bool,
    **plain: Any,
) -> AnalysisOptions:
    from_step, to_step = _steps(record_steps)
    chosen = plain | {
        "thresholds": [_threshold(text) for text in thresholds] or None,
        "ignore": ignore or None,
        "min_anomaly_us": None if min_anomaly is None else round(parse_duration_us(min_anomaly)),
        "window_calls": window,
        "period_us": None if period is None else round(period * 1e6),
        "record_from_step": from_step,
        "record_to_step": to_step,
        "is_frozen": freeze,
    }
    settings = ({} if config is None else _read(config)) | {
        name: value for name, value in chosen.items() if value is not None
    }
    return AnalysisOptions(
        config=_converted(settings, config), load_model=load_model, save_model=save_model, relabel=relabel
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not TOML ({error})") from error
    unknown = settings.keys() - set(AnalysisConfig.__struct_fields__)
    if unknown:
        raise ConfigError(
            f"{path}: {', '.join(sorted(unknown))} unknown; there are "
            f"{', '.join(AnalysisConfig.__struct_fields__)}"
        )
    if isinstance(thresholds := settings.get("thresholds"), Mapping):
        settings["thresholds"] = list(thresholds.items())
    return settings


def _converted(settings: dict[str, Any], path: Path | None) -> AnalysisConfig:
    try:
        return msgspec.convert(settings, AnalysisConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _threshold(text: str) -> tuple[str, float]:
    # Names hold "=" too, as in operator==.
    name, _, value = text.rpartition("=")
    try:
        if name:
            return name, float(value)
    except ValueError:
        pass
    raise ConfigError(f"--threshold-of {text!r}: not NAME=VALUE; give one like 'MPI_*=8'")


def _steps(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    match = _STEPS.fullmatch(text)
    if match is None:
        raise ConfigError(f"--record-steps {text!r}: not a range of steps; give one like 20:30, 20: or :30")
    first, last = match.groups()
    return int(first) if first else None, int(last) if last else None
