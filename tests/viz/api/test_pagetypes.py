"""The page knows the answers of the API, and the causes of lost time, as the server has them."""

from __future__ import annotations

import re

import pytest

from chimbuko.causes.kinds.registry import CAUSES
from docs import pagetypes


def test_types_are_as_described() -> None:
    if not pagetypes.GENERATOR.exists():
        pytest.skip("openapi-typescript is not there: npm ci in viz/web")
    assert pagetypes.TYPES.read_text() == pagetypes.types(), "run: python docs/pagetypes.py"


def test_causes_are_those_of_the_server() -> None:
    assert pagetypes.CAUSES_OF_PAGE.read_text() == pagetypes.causes(), "run: python docs/pagetypes.py"


def test_each_colour_of_a_cause_has_a_style() -> None:
    style = (pagetypes.WEB / "src" / "style" / "incident.css").read_text()
    assert {cause.colour for cause in CAUSES} == set(re.findall(r"^\.cause-(\w+) ", style, re.MULTILINE))
