"""What tests of the monitor share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def closed_files() -> Iterator[None]:
    """Close the files of samplers that a module has dropped: each holds some for every process of the node.

    With 1,024 of them open, ADIOS2's reader over SST ends the process that runs the tests.
    """
    yield
    gc.collect()
