"""The options of the analysis, and the configuration that they and a file make."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from chimbuko.core.config import DETECTORS, METRICS, MOST_LEAVES, MOST_PARTS, MOST_WRITERS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.plugins import declared
from chimbuko.core.units import parse_duration_us
from chimbuko.launcher.options import AnalysisOptions
from chimbuko.runtime.runs.environment import labelled
from chimbuko.runtime.runs.finding import find_run


class PluginChoice(click.Choice[str]):
    """Choice among names of our own, which help lists, and those of the plugins of a kind.

    Plugins are looked for only where the name is none of ours.
    """

    def __init__(self, names: Iterable[str], kind: str) -> None:
        super().__init__(list(names))
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, as ``click.Choice`` does."""
        if value not in self.choices and value in declared(self._kind):
            return str(value)
        return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the message, which names plugins too."""
        names = [*self.choices, *declared(self._kind)]
        return f"{value!r} is not one of {', '.join(map(repr, names))}."


# Lists that an option takes from a file, ``@FILE``, in the forms that the C++ Chimbuko has them.
#
# Names of functions stand in lines, or in a JSON list; thresholds are a JSON list of objects with ``fname``
# and ``threshold``; watched counters are a JSON list of pairs, of a counter and its field.


Item = TypeVar("Item")


class FunctionThreshold(msgspec.Struct, frozen=True):
    """Threshold of one function."""

    fname: str
    threshold: float


def names_of(words: Iterable[str]) -> list[str]:
    """Return names of functions, with those of files in their places.

    Raises
    ------
    ConfigError
        A file cannot be read, or has no names.
    """
    return _expanded(words, lambda word: word, _names)


def thresholds_of(words: Iterable[str]) -> list[tuple[str, float]]:
    """Return thresholds of functions, ``NAME=VALUE`` or those of a file.

    Raises
    ------
    ConfigError
        A word or a file has none.
    """
    return _expanded(words, _threshold, _thresholds)


def counters_of(words: Iterable[str]) -> list[tuple[str, str]]:
    """Return watched counters with their fields, ``COUNTER``, ``COUNTER=FIELD`` or those of a file; the field
    is empty where none is given.

    Raises
    ------
    ConfigError
        A file cannot be read, or has none.
    """
    return _expanded(words, _counter, _counters)


def _expanded(
    words: Iterable[str], one: Callable[[str], Item], many: Callable[[str, str], Sequence[Item]]
) -> list[Item]:
    found: list[Item] = []
    for word in words:
        if not word.startswith("@"):
            found.append(one(word))
            continue
        try:
            text = Path(word[1:]).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no text in UTF-8"
            raise ConfigError(f"{word[1:]}: it cannot be read ({reason})") from error
        found += many(text, word[1:])
    return found


def _names(text: str, path: str) -> list[str]:
    if text.lstrip().startswith("["):
        return _decoded(text, path, list[str], '["main", "MPI_Init()"]')
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _thresholds(text: str, path: str) -> list[tuple[str, float]]:
    found = _decoded(text, path, list[FunctionThreshold], '[{"fname": "main", "threshold": 0.995}]')
    return [(one.fname, one.threshold) for one in found]


def _counters(text: str, path: str) -> list[tuple[str, str]]:
    return _decoded(text, path, list[tuple[str, str]], '[["monitoring: CPU user", "cpu_user"]]')


def _decoded(text: str, path: str, kind: type[list[Item]], example: str) -> list[Item]:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: not a list like {example} ({error})") from error


def _threshold(text: str) -> tuple[str, float]:
    # Names hold "=" too, as in operator==.
    name, _, value = text.rpartition("=")
    try:
        if name:
            return name, float(value)
    except ValueError:
        pass
    raise ConfigError(f"--threshold-of {text!r}: not NAME=VALUE; give one like 'MPI_*=8'")


def _counter(text: str) -> tuple[str, str]:
    name, _, field = text.partition("=")
    return name, field


SERIES, NOTHING = "series", "none"
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
        help="Threshold of one function, or of all functions that match a pattern with * and ?; @FILE has "
        "them as JSON of the C++ Chimbuko. Repeatable.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        metavar="NAME",
        help="Never flag this function, or those that match a pattern; @FILE has a name in each line. "
        "Repeatable.",
    ),
    click.option(
        "--watch",
        multiple=True,
        metavar="COUNTER[=FIELD]",
        help="Counter, or the beginning of its name, that describes the node, not a call, and its field; "
        "@FILE has a JSON list of such pairs. Repeatable; default 'monitoring:'.",
    ),
    click.option(
        "--uncorrelated",
        multiple=True,
        metavar="NAME",
        help="Take correlation ids of this function, or of those that match a pattern, for no launches; "
        "@FILE has a name in each line. Repeatable.",
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
        "--leaf-servers",
        type=click.IntRange(0, MOST_LEAVES),
        help="Servers that merge what some of the agents learn, for the parameter server: one for each 250 "
        "nodes, from a thousand nodes on. Not for recorded traces. Default 0.",
    ),
    click.option(
        "--store-writers",
        type=click.IntRange(1, MOST_WRITERS),
        help="Processes that write into the store; 'chimbuko model pipeline' says how many ranks one takes. "
        "Default 1.",
    ),
    click.option(
        "--load-model",
        type=click.Path(path_type=Path),
        help="Begin with the model that an earlier run learned.",
    ),
    click.option(
        "--baseline",
        metavar="series|RUN|none",
        default="series",
        show_default=True,
        help="Begin with what good runs of the same series have learned, at least three; with that of RUN; "
        "or with nothing. Recorded traces begin with nothing unless a RUN is given.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="KEY=VALUE",
        help="Label of the run: runs with other labels are of another series. Repeatable.",
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
    *("config", "detector", "threshold", "thresholds", "ignore", "watch", "uncorrelated"),
    *("metric", "fast_side", "min_anomaly"),
    "max_anomalies_per_function",
    *("window", "period", "record_steps", "node_samples", "server_parts", "leaf_servers", "store_writers"),
    *("load_model", "baseline", "labels", "freeze", "save_model", "relabel"),
)


def _options(
    config: Path | None,
    thresholds: tuple[str, ...],
    ignore: tuple[str, ...],
    watch: tuple[str, ...],
    uncorrelated: tuple[str, ...],
    min_anomaly: str | None,
    window: int | None,
    period: float | None,
    record_steps: str | None,
    load_model: Path | None,
    baseline: str,
    labels: tuple[str, ...],
    freeze: bool | None,
    save_model: Path | None,
    relabel: bool,
    **plain: Any,
) -> AnalysisOptions:
    from_step, to_step = _steps(record_steps)
    watched = counters_of(watch)
    chosen = plain | {
        "thresholds": thresholds_of(thresholds) or None,
        "ignore": names_of(ignore) or None,
        "watched_counters": [counter for counter, _ in watched] or None,
        "counter_fields": [(counter, field) for counter, field in watched if field] or None,
        "uncorrelated": names_of(uncorrelated) or None,
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
    if baseline not in (SERIES, NOTHING):
        if load_model is not None:
            raise ConfigError(
                "--baseline RUN and --load-model: a run begins with one model; give one of them"
            )
        load_model = _model_of(Path(baseline))
    labelled(labels)
    return AnalysisOptions(
        config=_converted(settings, config),
        load_model=load_model,
        is_of_series=baseline == SERIES,
        labels=labels,
        save_model=save_model,
        relabel=relabel,
    )


def _model_of(baseline: Path) -> Path:
    run = find_run(baseline)
    if not run.model_path.exists():
        raise ConfigError(
            f"--baseline {baseline}: that run has no model, as none of its functions was called"
        )
    return run.model_path


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
    for name in ("thresholds", "counter_fields"):
        if isinstance(table := settings.get(name), Mapping):
            settings[name] = list(table.items())
    return settings


def _converted(settings: dict[str, Any], path: Path | None) -> AnalysisConfig:
    try:
        return msgspec.convert(settings, AnalysisConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _steps(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    match = _STEPS.fullmatch(text)
    if match is None:
        raise ConfigError(f"--record-steps {text!r}: not a range of steps; give one like 20:30, 20: or :30")
    first, last = match.groups()
    return int(first) if first else None, int(last) if last else None
