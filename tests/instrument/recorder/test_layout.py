"""The library's structures in C, and the same in Python, lie alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from chimbuko.instrument.recorder.layout import (
    COMMUNICATOR,
    COUNTS,
    CRASH,
    ENDING,
    EVENT,
    FUNCTION_ROW,
    PROCESS,
    RING,
    TRAFFIC,
)
from chimbuko.instrument.recorder.library import FOLDER

STRUCTURES = {
    "event": EVENT,
    "communicator": COMMUNICATOR,
    "ending": ENDING,
    "crash": CRASH,
    "function_row": FUNCTION_ROW,
    "process": PROCESS,
    "ring": RING,
    "counts": COUNTS,
    "traffic": TRAFFIC,
}
IN_C = {("event", "value"): "key"}


@pytest.mark.parametrize("name", STRUCTURES)
def test_fields_lie_where_the_library_has_them(name: str, tmp_path: Path) -> None:
    described: np.dtype = STRUCTURES[name]
    assert described.names is not None
    places = "".join(
        f'printf("%zu ", offsetof(struct {name}, {IN_C.get((name, field), field)}));\n'
        for field in described.names
    )
    source = tmp_path / "places.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "layout.h"\n'
        f'int main(void) {{ {places} printf("%zu\\n", sizeof(struct {name})); return 0; }}\n'
    )
    program = tmp_path / "places"
    subprocess.run(["cc", "-std=gnu11", f"-I{FOLDER}", str(source), "-o", str(program)], check=True)
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    offsets = [described.fields[field][1] for field in described.names] if described.fields else []
    assert [int(one) for one in found] == [*offsets, described.itemsize]
