"""Reads the query part of an API request into typed values; what is wrong is said in one line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal, TypeVar, get_args

from werkzeug.datastructures import MultiDict

from chimbuko.errors import ConfigError
from chimbuko.provenance.calls import CallFilter
from chimbuko.viz.tally import RankKey, Statistic

T = TypeVar("T")
Default = TypeVar("Default")
Arguments = MultiDict[str, str]

STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
Label = Literal["anomaly", "normal", "any"]
LABELS: tuple[Label, ...] = get_args(Label)
MAX_LIMIT = 1000
_RANK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9})")


def check_names(arguments: Arguments, known: frozenset[str]) -> None:
    """Refuse arguments that mean nothing here: a mistyped filter must not show everything.

    Raises
    ------
    ConfigError
        There is one.
    """
    for name in arguments:
        if name not in known:
            raise ConfigError(f"{name}: not an argument here; known: {', '.join(sorted(known)) or 'none'}")


def one(arguments: Arguments, name: str, convert: Callable[[str], T], default: Default) -> T | Default:
    """The argument ``name``, converted.

    Raises
    ------
    ConfigError
        It was given more than once, or cannot be converted.
    """
    given = arguments.getlist(name)
    if len(given) > 1:
        raise ConfigError(f"{name}: given {len(given)} times, at most once is possible")
    if not given:
        return default
    try:
        return convert(given[0])
    except ValueError as error:
        raise ConfigError(f"{name}={given[0]!r}: {error}") from None


def whole(text: str) -> int:
    """A whole number that a database takes."""
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise ValueError("not a whole number")
    return int(text)


def positive(most: int) -> Callable[[str], int]:
    """A whole number from 1 to ``most``."""

    def convert(text: str) -> int:
        value = whole(text)
        if not 1 <= value <= most:
            raise ValueError(f"not from 1 to {most}")
        return value

    return convert


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def choice(known: tuple[T, ...]) -> Callable[[str], T]:
    """One of ``known``."""

    def convert(text: str) -> T:
        for value in known:
            if value == text:
                return value
        raise ValueError(f"not one of {', '.join(map(str, known))}")

    return convert


def flag(text: str) -> bool:
    """``true`` or ``false``."""
    return choice(("true", "false"))(text) == "true"


def rank(text: str) -> tuple[int | None, int]:
    """``program:rank``, or a rank of whatever program."""
    match = _RANK.fullmatch(text)
    if match is None:
        raise ValueError("not a rank; give PROGRAM:RANK, such as 0:3")
    return (None if match[1] is None else int(match[1])), int(match[2])


def ranks(arguments: Arguments) -> list[RankKey]:
    """All arguments ``rank``, each ``program:rank``; the program is 0 where it is left out.

    Raises
    ------
    ConfigError
        One is no rank, or there are none.
    """
    keys: dict[RankKey, None] = {}
    for text in arguments.getlist("rank"):
        try:
            program, number_of_rank = rank(text)
        except ValueError as error:
            raise ConfigError(f"rank={text!r}: {error}") from None
        keys[program or 0, number_of_rank] = None
    if not keys:
        raise ConfigError("rank: missing; give at least one, such as rank=0:3")
    return list(keys)


FILTER_NAMES = frozenset(
    {
        "label",
        "function",
        "program",
        "rank",
        "thread",
        "step_min",
        "step_max",
        "time_min_us",
        "time_max_us",
        "min_severity_us",
        "min_score",
    }
)


def call_filter(arguments: Arguments) -> CallFilter:
    """Which calls are wanted.

    Raises
    ------
    ConfigError
        An argument cannot be understood.
    """
    anomaly: Label = "anomaly"
    label = one(arguments, "label", choice(LABELS), anomaly)
    program, rank_number = one(arguments, "rank", rank, (None, None))
    return CallFilter(
        label=None if label == "any" else label,
        function=one(arguments, "function", str, None),
        program=one(arguments, "program", whole, program),
        rank=rank_number,
        thread=one(arguments, "thread", whole, None),
        step_min=one(arguments, "step_min", whole, None),
        step_max=one(arguments, "step_max", whole, None),
        time_min_us=one(arguments, "time_min_us", whole, None),
        time_max_us=one(arguments, "time_max_us", whole, None),
        min_severity_us=one(arguments, "min_severity_us", number, None),
        min_score=one(arguments, "min_score", number, None),
    )
