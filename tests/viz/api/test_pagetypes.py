"""The page knows the answers of the API by the types that the server describes."""

from __future__ import annotations

import pytest

from docs import pagetypes


def test_they_are_as_described() -> None:
    if not pagetypes.GENERATOR.exists():
        pytest.skip("openapi-typescript is not there: npm ci in viz/web")
    assert pagetypes.TYPES.read_text() == pagetypes.written(), "run: python docs/pagetypes.py"
