"""Normal forms: how they are written and read, and what they are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.plan.normalform import Factor, NormalForm, PerformanceModel, Term, parse_form

POWERS = st.sampled_from([-3.0, -0.75, -0.5, 0.25, 1.0, 4 / 3, 2.0])
FACTORS = st.lists(st.sampled_from(["ranks", "threads", "bytes_s"]), unique=True, max_size=3).flatmap(
    lambda names: st.tuples(
        *(
            st.builds(Factor, st.just(name), POWERS, st.sampled_from([0.0, 0.5, 1.0, 2.0]))
            for name in sorted(names)
        )
    )
)
COEFFICIENTS = st.floats(1e-6, 1e6).flatmap(lambda value: st.sampled_from([value, -value]))
FORMS = st.lists(st.builds(Term, COEFFICIENTS, FACTORS), min_size=1, max_size=4).map(
    lambda terms: NormalForm(tuple(terms))
)
POINT = {"ranks": 48.0, "threads": 3.0, "bytes_s": 1e6}


@settings(max_examples=40, deadline=None)
@given(FORMS)
def test_what_is_written_is_read(form: NormalForm) -> None:
    again = parse_form(str(form))
    assert [[one.parameter for one in term.factors] for term in again.terms] == [
        [one.parameter for one in term.factors] for term in form.terms
    ]
    size = sum(abs(NormalForm((term,)).values(POINT)) for term in form.terms)
    assert again.values(POINT) == pytest.approx(form.values(POINT), abs=1e-5 * float(size))


@settings(max_examples=40, deadline=None)
@given(FORMS, FORMS)
def test_a_sum_of_forms_is_worth_the_sum(one: NormalForm, other: NormalForm) -> None:
    both = NormalForm(one.terms + other.terms)
    assert both.values(POINT) == pytest.approx(one.values(POINT) + other.values(POINT), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.0064 + 2711 / ranks", 0.0064 + 2711 / 48),
        ("3.806+8.2481*ranks^-0.5", 3.806 + 8.2481 / math.sqrt(48)),
        ("3.806 + 8.2481 / sqrt(ranks)", 3.806 + 8.2481 / math.sqrt(48)),
        ("-2 * log2(ranks)^2 + ranks^(1/2)", -2 * math.log2(48) ** 2 + math.sqrt(48)),
        ("2e-3 * ranks * log2(threads)", 2e-3 * 48 * math.log2(3)),
        ("ranks / threads - 1", 15.0),
        (".5", 0.5),
        ("0", 0.0),
    ],
)
def test_forms_are_read_as_they_are_written_by_hand(text: str, value: float) -> None:
    assert parse_form(text).values(POINT) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ranks +",
        "2 ranks",
        "ranks^",
        "ranks^x",
        "log2()",
        "(2 + ranks) * 3",
        "1e999 * ranks",
        "1/0",
        "a^(1/0)",
    ],
)
def test_what_is_no_form_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="not understood from character") as refused:
        parse_form(text)
    assert "\n" not in str(refused.value)


def test_a_model_is_asked_at_the_nearest_point_that_was_measured_and_says_so() -> None:
    model = PerformanceModel(parse_form("10 / ranks"), {"ranks": (2.0, 8.0)})
    assert model.at({"ranks": 4.0}).time_s == 2.5
    assert model.at({"ranks": 4.0}).clamps == ()
    outside = model.at({"ranks": 16.0})
    assert outside.time_s == 1.25
    assert outside.clamps == ("ranks = 16 is taken as 8, the end of what was measured",)


def test_no_time_is_below_zero() -> None:
    found = PerformanceModel(parse_form("-11.605 + 205.01318 * ranks^-0.8")).at({"ranks": 72.0})
    assert found.time_s == 0.0
    assert found.clamps == ("-4.91 s at ranks = 72 is taken as 0",)


@settings(max_examples=40, deadline=None)
@given(FORMS, st.floats(1.5, 1e5))
def test_a_time_is_finite_and_never_negative(form: NormalForm, ranks: float) -> None:
    estimate = PerformanceModel(form).at({**POINT, "ranks": ranks})
    assert np.isfinite(estimate.time_s)
    assert estimate.time_s >= 0.0


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"threads": 2.0}, "no value of 'ranks'"),
        ({"ranks": 0.0}, "positive"),
        ({"ranks": math.nan}, "positive"),
    ],
)
def test_a_parameter_without_a_usable_value_is_named(point: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PerformanceModel(parse_form("1 / ranks")).at(point)


def test_where_a_form_has_no_value_is_said() -> None:
    with pytest.raises(ConfigError, match=r"has no value at ranks = 0\.5"):
        PerformanceModel(parse_form("log2(ranks)^0.5")).at({"ranks": 0.5})
