"""The types with which kernels are called are those for which they are compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from chimbuko.core.kernels import library
from chimbuko.core.kernels.signatures import SIGNATURES, described, numba_type
from tests.core.kernels.calls import called
from tests.places import ROOT


class Pair(NamedTuple):
    """A named tuple, as some kernels take."""

    first: Any
    second: Any


RECORD = np.dtype([("time_us", "<u8"), ("kind", "u1")], align=True)
NESTED = np.dtype([("inner", RECORD, (3,)), ("name", "<i4", (2, 2))])
VALUES = [
    np.zeros(3),
    np.zeros((2, 3), np.uint64),
    np.zeros((4, 4))[:, ::2],
    np.zeros(2, RECORD),
    np.zeros(2, NESTED),
    Pair(np.zeros(2, np.int32), Pair(1, np.zeros(0, RECORD))),
    1,
    1.5,
    True,
    np.uint64(3),
    np.bool_(True),
]


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="kernels are plain Python, numba has no types")
@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_types_survive_as_plain_values(value: Any) -> None:
    from numba import typeof

    kept = json.loads(json.dumps(described(value)))
    assert kept == described(value)
    assert str(numba_type(kept)) == str(typeof(value))


@pytest.mark.parametrize("value", [{}, "text", None, [1]], ids=str)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="is no type of a kernel's argument"):
        described(value)


def test_the_file_is_current() -> None:
    assert called() == SIGNATURES.read_text(), "python -m tests.core.kernels.calls writes it anew"


@pytest.mark.skipif(library.find() is None, reason="the library of kernels is not built: chimbuko warmup")
def test_a_call_with_other_types_is_refused_where_calls_are_checked() -> None:
    call = "import numpy; from chimbuko.core.kernels.rowindex import add_values as add; n = numpy.zeros; "
    bad = "add(n((2, 2)), n(1, numpy.int32), n(1))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment["CHIMBUKO_KERNELS_AS"] = "checked"
    done = subprocess.run(
        [sys.executable, "-c", call + bad], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "core.kernels.rowindex.add_values is called with" in done.stderr
