"""The options that say which recorded calls are wanted, and the filter that they make."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_type_hints

import click
from msgspec import Meta, inspect

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import parse_duration_us
from chimbuko.provenance.query.filters import AnomalyFilter, CallFilter
from chimbuko.provenance.query.run import Provenance

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
_NUMBER_RANGE = re.compile(r"(\d*)(:?)(\d*)")
_TYPED_OTHERWISE = (
    "rank",
    "rank_min",
    "rank_max",
    "step_min",
    "step_max",
    "time_min_us",
    "time_max_us",
    "detector",
)
"""Filters that are typed as ranges; and a run has one detector."""
_MORE = {"min_severity_us": ": 200us, 5ms, 1s"}
_NAMES = {
    name: f"--{name.removesuffix('_us').removeprefix('is_').replace('_', '-')}"
    for name in AnomalyFilter.__struct_fields__
    if name not in _TYPED_OTHERWISE
}
"""Filters to their options."""


@dataclass(frozen=True)
class CallChoice:
    """Choice of calls by the options, as they were typed."""

    label: str
    rank: str | None
    step: str | None
    time: str | None
    others: Mapping[str, Any]
    """Further values, by the names of the filters."""

    def filter(self, provenance: Provenance) -> CallFilter:
        """Return the filter for a query of a run, from whose start its times count.

        Raises
        ------
        ConfigError
            A range or a duration cannot be read.
        """
        first_rank, last_rank = _numbers("rank", self.rank)
        first_step, last_step = _numbers("step", self.step)
        is_one = first_rank is not None and first_rank == last_rank
        first_us, last_us = parse_times(self.time, start_us(provenance))
        durations = {
            name: parse_duration_us(text)
            for name, text in self.others.items()
            if name.endswith("_us") and text is not None
        }
        return CallFilter(
            **{**self.others, **durations},
            label=None if self.label == "any" else cast(Literal["anomaly", "normal"], self.label),
            rank=first_rank if is_one else None,
            rank_min=None if is_one else first_rank,
            rank_max=None if is_one else last_rank,
            step_min=first_step,
            step_max=last_step,
            time_min_us=first_us,
            time_max_us=last_us,
        )


def call_options(label: str) -> Decorator:
    """Give a command the options that choose calls; it gets them as ``choice``, a ``CallChoice``.

    Parameters
    ----------
    label
        Default of ``--label``. Of an incident or finding all calls are wanted, unless it is said otherwise.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_choice(
            typed: str | None, rank: str | None, step: str | None, time: str | None, **values: Any
        ) -> None:
            others = {name: values.pop(name) for name in _NAMES}
            of_default = label if others["incident"] is others["finding"] is None else "any"
            command(choice=CallChoice(typed or of_default, rank, step, time, others), **values)

        wrapped: Callable[..., None] = with_choice
        options: tuple[Decorator, ...] = (*_options(), *_RANGES, _label_option(label))
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return give


def start_us(provenance: Provenance) -> int:
    """Start of the first analysed step, from which times on the command line count."""
    time_range = provenance.steps.time_range()
    return time_range[0] if time_range else 0


_RANGES = (
    click.option("--rank", metavar="A[:B]", help="One rank, or a range: 0:15, 16:, :15."),
    click.option("--step", metavar="A[:B]", help="One step, or a range: 20:30, 20:, :30."),
    click.option(
        "--time", metavar="A:B", help="Calls under way at that time since the start, as in 1.5s:2s."
    ),
)


def _options() -> Iterator[Decorator]:
    """Yield an option for each filter, with the filter's own words."""
    hints = get_type_hints(AnomalyFilter, include_extras=True)
    for name, option in _NAMES.items():
        described = next(one for one in hints[name].__metadata__ if isinstance(one, Meta))
        text = (described.description or "").replace("`", "")
        wanted = inspect.type_info(hints[name].__origin__)
        assert isinstance(wanted, inspect.UnionType)
        kinds = {type(kind) for kind in wanted.types}
        if inspect.BoolType in kinds:
            yield click.option(f"{option}/{option.replace('--', '--no-')}", name, default=None, help=text)
        elif name.endswith("_us"):
            text = text.rstrip(".") + _MORE.get(name, "") + "."
            yield click.option(option, name, metavar="DURATION", help=text)
        elif inspect.FloatType in kinds:
            yield click.option(option, name, type=float, metavar="X", help=text)
        else:
            is_number = inspect.IntType in kinds
            yield click.option(option, name, type=int if is_number else str, help=text)


def _label_option(default: str) -> Decorator:
    labels = click.Choice(["anomaly", "normal", "any"])
    text = (
        f"[default: {default}]"
        if default == "any"
        else f"[default: {default}; any, with --incident or --finding]"
    )
    return click.option("--label", "typed", type=labels, help=text)


def _numbers(of: Literal["rank", "step"], text: str | None) -> tuple[int | None, int | None]:
    """First and last number of what was typed; None for an end that is open."""
    if text is None:
        return None, None
    match = _NUMBER_RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise ConfigError(
            f"--{of} {text!r}: not a {of} or range of {of}s; give one like 20, 20:30, 20: or :30"
        )
    first, colon, last = match.groups()
    if not colon:
        last = first
    if first and last and int(first) > int(last):
        raise ConfigError(f"--{of} {text!r}: it ends before it begins; {last}:{first} is one")
    return int(first) if first else None, int(last) if last else None


def parse_times(text: str | None, start_us: int) -> tuple[int | None, int | None]:
    """Begin and end of ``--time`` in µs since 1970; None for an end that is open.

    Raises
    ------
    ConfigError
        It is no range.
    """
    if text is None:
        return None, None
    first, colon, last = text.partition(":")
    if not colon:
        raise ConfigError(f"--time {text!r}: not a range of times; give one like 1.5s:2s, 1.5s: or :2s")
    ends = (start_us + round(parse_duration_us(end)) if end else None for end in (first, last))
    return next(ends), next(ends)
