"""Queries of API requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from chimbuko.errors import ConfigError
from chimbuko.provenance.calls import CallFilter
from chimbuko.viz import arguments


def test_all_filters_arrive() -> None:
    given_filter = MultiDict(
        {
            "label": "normal",
            "function": "MPI_*",
            "rank": "2:7",
            "thread": "1",
            "step_min": "3",
            "step_max": "9",
            "time_min_us": "1700000000000000",
            "time_max_us": "1700000009000000",
            "min_severity_us": "12.5",
            "min_score": "-1e3",
        }
    )
    assert arguments.call_filter(given_filter) == CallFilter(
        "normal", "MPI_*", 2, 7, 1, 3, 9, 1_700_000_000_000_000, 1_700_000_009_000_000, 12.5, -1000.0
    )


def test_nothing_given_means_all_anomalies() -> None:
    assert arguments.call_filter(MultiDict()) == CallFilter()
    assert arguments.call_filter(MultiDict({"label": "any"})).label is None
    assert arguments.call_filter(MultiDict({"rank": "3", "program": "1"})) == CallFilter(program=1, rank=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label", "abnormal"),
        ("rank", "one"),
        ("rank", "0:1:2"),
        ("rank", "-1"),
        ("thread", "1.5"),
        ("step_min", ""),
        ("step_max", "9" * 40),
        ("min_severity_us", "nan"),
        ("min_severity_us", "inf"),
        ("min_score", "high"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name) as error:
        arguments.call_filter(MultiDict({name: value}))
    assert "\n" not in str(error.value)


def test_repeated_and_unknown_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 times"):
        arguments.call_filter(MultiDict([("rank", "1"), ("rank", "2")]))
    with pytest.raises(ConfigError, match="rnak"):
        arguments.check_names(MultiDict({"rnak": "1"}), arguments.FILTER_NAMES)


def test_several_ranks() -> None:
    assert arguments.ranks(MultiDict([("rank", "0:3"), ("rank", "7"), ("rank", "0:3")])) == [(0, 3), (0, 7)]
    with pytest.raises(ConfigError, match="at least one"):
        arguments.ranks(MultiDict())


@given(text=st.text(max_size=30))
def test_any_text_is_taken_or_refused_in_one_line(text: str) -> None:
    for name in sorted(arguments.FILTER_NAMES):
        try:
            arguments.call_filter(MultiDict({name: text}))
        except ConfigError as error:
            assert str(error).startswith(f"{name}=")
