"""Two analyses of the demo's recorded program: one function is slower by a tenth in one of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from chimbuko.provenance.compare.runcomparison import compare
from chimbuko.provenance.compare.runprofile import RunProfile, read_profile
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.lengthened import lengthen
from tests.places import DATA

RECORDED = DATA / "heat4.tar.xz"
SLOWER = "relax_block"


def analysed(traces: Path, output: Path) -> RunProfile:
    command = ["run", "--trace", str(traces / "*.bp"), "--output", str(output)]
    subprocess.run([sys.executable, "-m", "chimbuko", *command], check=True, capture_output=True)
    with open_run(RunDirectory(output)) as provenance:
        return read_profile(provenance)


def test_the_slower_function_of_a_real_program_is_named_and_no_other(tmp_path: Path) -> None:
    shutil.unpack_archive(RECORDED, tmp_path)
    longer = tmp_path / "longer"
    longer.mkdir()
    for stream in (tmp_path / "heat4").glob("*.bp"):
        assert lengthen(stream, longer / stream.name, SLOWER, 0.1) > 1000
    before, after = analysed(tmp_path / "heat4", tmp_path / "a"), analysed(longer, tmp_path / "b")
    found = compare(before, after)
    worst = found.functions[0]
    assert (worst.name.split()[0], worst.decisive.verdict) == (SLOWER, "slower")
    assert not {"slower", "faster"} & {shift.decisive.verdict for shift in found.functions[1:]}
    assert worst.usual.effect is not None and abs(worst.usual.effect - 0.1) < 0.01
    assert {round(shift.usual.effect or 0.0, 3) for shift in found.functions[1:]} == {0.0}
    assert {shift.decisive.verdict for shift in compare(before, before).functions} <= {"same", "unclear"}
