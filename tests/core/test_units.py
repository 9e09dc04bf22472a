from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import (
    against_usual,
    format_change,
    format_duration_us,
    format_signed_us,
    number_of,
    parse_age_us,
    parse_duration_us,
)


@pytest.mark.parametrize(
    ("duration_us", "shown"),
    [
        (0, "0 µs"),
        (1e-9, "0 µs"),
        (0.25, "0.250 µs"),
        (5, "5 µs"),
        (12.345, "12.3 µs"),
        (512, "512 µs"),
        (999.4, "999 µs"),
        (999.7, "1.00 ms"),
        (1_000, "1.00 ms"),
        (1_234, "1.23 ms"),
        (99_960, "100 ms"),
        (999_499, "999 ms"),
        (999_700, "1.00 s"),
        (12_345_678, "12.3 s"),
        (142_000_000, "142 s"),
        (999_700_000, "16 min 40 s"),
        (3_599_600_000, "1 h 0 min"),
        (14_300_000_000, "3 h 58 min"),
        (8.64e15, "2,400,000 h"),
        (-1_500, "−1.50 ms"),
    ],
)
def test_durations_have_three_significant_digits(duration_us: float, shown: str) -> None:
    assert format_duration_us(duration_us) == shown


def test_differences_have_a_sign_which_is_no_hyphen() -> None:
    assert [format_signed_us(offset) for offset in (-5, 0, 1_500)] == ["−5 µs", "+0 µs", "+1.50 ms"]
    assert [format_change(share) for share in (-0.929, 0.0, 0.08)] == ["−92.9 %", "+0.0 %", "+8.0 %"]
    assert format_change(-1.234e-7, ".3g") == "−1.23e-05 %"


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("5ms", 5_000),
        ("200us", 200),
        ("200 µs", 200),
        ("200\u03bcs", 200),
        ("1.5s", 1_500_000),
        (" .5 s ", 500_000),
        ("7.ms", 7_000),
        ("0", 0),
        ("0.0", 0),
    ],
)
def test_durations_with_a_unit_are_understood(text: str, duration_us: float) -> None:
    assert parse_duration_us(text) == duration_us


@pytest.mark.parametrize("text", ["", "ms", "-5ms", "5 min", "1e3", "nan", "inf", "5ms6", "1,5s", "5 5"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a duration; give one like"):
        parse_duration_us(text)


@pytest.mark.parametrize("text", ["5", "0.5", "7.", " 200 "])
def test_a_number_alone_is_asked_for_its_unit(text: str) -> None:
    with pytest.raises(ConfigError, match=r"of which unit\? give [0-9.]+us, [0-9.]+ms or [0-9.]+s"):
        parse_duration_us(text)


@settings(deadline=None)
@given(st.floats(1e-3, 9.99e8))
def test_what_is_shown_is_read_back_within_half_a_percent(duration_us: float) -> None:
    assert parse_duration_us(format_duration_us(duration_us)) == pytest.approx(duration_us, rel=5e-3)


def test_ages_are_read_as_people_write_them() -> None:
    hour_us = 3_600_000_000
    ages = {"30min": hour_us // 2, "12h": 12 * hour_us, "1.5 d": 36 * hour_us, "2w": 336 * hour_us}
    assert {text: parse_age_us(text) for text in ages} == ages
    for text in ("7", "d", "7m", "-1d", "7 days"):
        with pytest.raises(ConfigError, match="not an age; give one like"):
            parse_age_us(text)


@pytest.mark.parametrize(
    ("number", "things", "text"),
    [
        (0, "ranks", "0 ranks"),
        (1, "ranks", "1 rank"),
        (1200, "ranks", "1,200 ranks"),
        (1, "anomalies", "1 anomaly"),
        (1, "processes", "1 process"),
        (1, "steps never seen", "1 step never seen"),
        (1, "more functions", "1 more function"),
        (1, "EXIT without ENTRY", "1 EXIT without ENTRY"),
    ],
)
def test_one_thing_is_said_in_the_singular(number: int, things: str, text: str) -> None:
    assert number_of(number, things) == text


@pytest.mark.parametrize(
    ("runtime_us", "usual_us", "words"),
    [
        (276_000.0, 23_000.0, ", 12× its usual X"),
        (150_000.0, 3.0, " instead of X"),
        (2e6, 1e3, " instead of X"),
        (5.0, 0.0, ""),
    ],
)
def test_a_factor_is_said_where_it_can_be_imagined(runtime_us: float, usual_us: float, words: str) -> None:
    assert against_usual(runtime_us, usual_us, "X") == words
