"""The options that say which recorded calls are wanted, and the filter that they make."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import click

from chimbuko.errors import ConfigError
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.units import parse_duration_us

_NUMBER_RANGE = re.compile(r"(\d*)(:?)(\d*)")


@dataclass(frozen=True)
class CallChoice:
    """Which calls the options ask for, as they were typed."""

    label: str
    function: str | None
    through: str | None
    path: int | None
    text: str | None
    program: int | None
    rank: int | None
    node: str | None
    thread: int | None
    is_gpu: bool | None
    step: str | None
    time: str | None
    min_severity: str | None
    max_severity: str | None
    min_score: float | None
    max_score: float | None
    is_open: bool

    def filter(self, provenance: Provenance) -> CallFilter:
        """As the filter of a query of a run; times count from the start of that.

        Raises
        ------
        ConfigError
            A range or duration is none.
        """
        first_step, last_step = _steps(self.step)
        first_us, last_us = _times(self.time, start_us(provenance))
        return CallFilter(
            label=None if self.label == "any" else cast(Literal["anomaly", "normal"], self.label),
            function=self.function,
            through=self.through,
            path=self.path,
            text=self.text,
            program=self.program,
            rank=self.rank,
            node=self.node,
            thread=self.thread,
            is_gpu=self.is_gpu,
            step_min=first_step,
            step_max=last_step,
            time_min_us=first_us,
            time_max_us=last_us,
            min_severity_us=_severity_us(self.min_severity),
            max_severity_us=_severity_us(self.max_severity),
            min_score=self.min_score,
            max_score=self.max_score,
            is_open=self.is_open or None,
        )


def call_options(label: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that choose calls; it gets them as ``choice``, a ``CallChoice``.

    Parameters
    ----------
    label
        Default of ``--label``.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_choice(**values: Any) -> None:
            chosen = {name: values.pop(name) for name in CallChoice.__dataclass_fields__}
            command(choice=CallChoice(**chosen), **values)

        wrapped: Callable[..., None] = with_choice
        for option in reversed((*_OPTIONS, _label_option(label))):
            wrapped = option(wrapped)
        return wrapped

    return give


def start_us(provenance: Provenance) -> int:
    """Start of the first analysed step, from which times on the command line count."""
    time_range = provenance.time_range()
    return time_range[0] if time_range else 0


_OPTIONS = (
    click.option("--function", help="Name, or a pattern with * and ?; all other characters are literal."),
    click.option("--through", metavar="FUNCTION", help="Name or pattern of a function on the call stack."),
    click.option("--path", type=int, metavar="N", help="Number of a call path, as --json shows it."),
    click.option("--text", help="Part of a name on the call stack or of the node's; case does not matter."),
    click.option("--program", type=int, help="Number of a program of the workflow."),
    click.option("--rank", type=int),
    click.option("--node", help="Name of a node, or a pattern."),
    click.option("--thread", type=int),
    click.option("--gpu/--no-gpu", "is_gpu", default=None, help="Only calls on GPUs, or only others."),
    click.option("--step", metavar="A[:B]", help="One step, or a range: 20:30, 20:, :30."),
    click.option(
        "--time", metavar="A:B", help="Calls under way at that time since the start, as in 1.5s:2s."
    ),
    click.option("--min-severity", metavar="DURATION", help="Least time lost: 5 (ms), 200us, 1s."),
    click.option("--max-severity", metavar="DURATION", help="Most time lost."),
    click.option("--min-score", type=float, metavar="X", help="Least score, in σ for sstd."),
    click.option("--max-score", type=float, metavar="X", help="Highest score."),
    click.option(
        "--open", "is_open", is_flag=True, help="Only calls that have not ended: of ranks that hang."
    ),
)


def _label_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    labels = click.Choice(["anomaly", "normal", "any"])
    return click.option("--label", type=labels, default=default, show_default=True)


def _severity_us(text: str | None) -> float | None:
    return None if text is None else parse_duration_us(text, "ms")


def _steps(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    match = _NUMBER_RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise ConfigError(
            f"--step {text!r}: not a step or range of steps; give one like 20, 20:30, 20: or :30"
        )
    first, colon, last = match.groups()
    if not colon:
        last = first
    return int(first) if first else None, int(last) if last else None


def _times(text: str | None, start_us: int) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, colon, last = text.partition(":")
    if not colon:
        raise ConfigError(f"--time {text!r}: not a range of times; give one like 1.5s:2s, 1.5s: or :2s")
    ends = (start_us + round(parse_duration_us(end, "s")) if end else None for end in (first, last))
    return next(ends), next(ends)
