"""PerfFlowAspect's attribute, as people write it."""

from __future__ import annotations

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import Advice
from chimbuko.instrument.weaver.definitions import parse_attribute


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("@critical_path()", Advice()),
        ("@critical_path( )", Advice()),
        ("@critical_path(pointcut='before')", Advice("before")),
        (
            "@critical_path(pointcut='around_async', scope='net', flow='out')",
            Advice("around_async", "net", "out"),
        ),
        ('@critical_path(flow="in",scope="a b", pointcut="after")', Advice("after", "a b", "in")),
        ("@critical_path(scope='NA', flow='NA')", Advice()),
    ],
)
def test_what_it_says(text: str, advice: Advice) -> None:
    assert parse_attribute(text) == advice


@pytest.mark.parametrize(
    "text",
    [
        *("@critical_path", "@critical_path(", "critical_path()", "@critical_path(around)"),
        *(
            "@critical_path(pointcut='arund')",
            "@critical_path(flow='sideways')",
            "@critical_path(point='around')",
        ),
        "@critical_path(pointcut='around' scope='x')",
    ],
)
def test_what_it_cannot_say(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_attribute(text)
