"""Queries of API requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.viz.api.endpoints.calls import CallsParameters, FilterParameters
from chimbuko.viz.api.endpoints.ranks import RankingParameters
from chimbuko.viz.api.endpoints.steps import StepsParameters
from chimbuko.viz.api.parameters import NoParameters, read_parameters


def filter_of(**arguments: str) -> CallFilter:
    """The filter that a query asks for."""
    return read_parameters(MultiDict(arguments), FilterParameters).call_filter()


def test_all_filters_arrive() -> None:
    wanted = filter_of(
        label="normal",
        function="MPI_*",
        rank="2:7",
        thread="1",
        step_min="3",
        step_max="9",
        time_min_us="1700000000000000",
        time_max_us="1700000009000000",
        min_severity_us="12.5",
        min_score="-1e3",
        is_open="false",
    )
    assert wanted == CallFilter(
        label="normal",
        function="MPI_*",
        program=2,
        rank=7,
        thread=1,
        step_min=3,
        step_max=9,
        time_min_us=1_700_000_000_000_000,
        time_max_us=1_700_000_009_000_000,
        min_severity_us=12.5,
        min_score=-1000.0,
        is_open=False,
    )


def test_nothing_given_means_all_anomalies() -> None:
    assert filter_of() == CallFilter()
    assert filter_of(label="any").label is None


def test_a_rank_may_name_its_program() -> None:
    assert filter_of(rank="3", program="1") == CallFilter(program=1, rank=3)
    assert filter_of(rank="2:3", program="1") == CallFilter(program=2, rank=3)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("label", "abnormal", "not one of anomaly, any, normal"),
        ("rank", "one", "not a rank as PROGRAM:RANK"),
        ("rank", "0:1:2", "not a rank"),
        ("rank", "-1", "not a rank"),
        ("thread", "1.5", "not a whole number"),
        ("thread", "-1", "Expected int >= 0"),
        ("step_min", "", "not a whole number"),
        ("step_min", "٣", "not a whole number"),
        ("step_max", "9" * 40, "not a whole number"),
        ("time_min_us", "9" * 18, "Expected int <= 9007199254740991"),
        ("min_severity_us", "nan", "not a finite number"),
        ("min_severity_us", "1e999", "not a finite number"),
        ("min_score", "high", "not a finite number"),
        ("is_open", "1", "not one of true, false"),
        ("function", "", "Expected str of length >= 1"),
        ("function", "a\0b", "not name of a function"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        filter_of(**{name: value})
    assert str(error.value).startswith(f"{name}=") and why in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 250


def test_repeated_and_unknown_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 times"):
        read_parameters(MultiDict([("thread", "1"), ("thread", "2")]), FilterParameters)
    with pytest.raises(ConfigError, match=r"rnak.*known: function, .*, label"):
        filter_of(rnak="1")
    with pytest.raises(ConfigError, match="known: none"):
        read_parameters(MultiDict({"x": "1"}), NoParameters)


def test_defaults_and_bounds() -> None:
    assert read_parameters(MultiDict(), CallsParameters) == CallsParameters(limit=50, sort="severity_us")
    assert read_parameters(MultiDict({"n": "1000"}), RankingParameters).n == 1000
    with pytest.raises(ConfigError, match=r"n='?1001.*<= 1000"):
        read_parameters(MultiDict({"n": "1001"}), RankingParameters)


def test_several_ranks() -> None:
    wanted = read_parameters(MultiDict([("rank", "0:3"), ("rank", "1:7")]), StepsParameters)
    assert wanted.rank == ["0:3", "1:7"]
    with pytest.raises(ConfigError, match="rank: missing; give at least one rank"):
        read_parameters(MultiDict(), StepsParameters)
    with pytest.raises(ConfigError, match=r"rank=.*length <= 256"):
        read_parameters(MultiDict([("rank", "0:3")] * 257), StepsParameters)


@given(text=st.text(max_size=30))
def test_any_text_is_taken_or_refused_in_one_line(text: str) -> None:
    for name in FilterParameters.__struct_fields__:
        try:
            filter_of(**{name: text})
        except ConfigError as error:
            assert str(error).startswith(f"{name}=")
            assert "\n" not in str(error)
