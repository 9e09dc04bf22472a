"""What is loaded with ADIOS2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.capture.trace.adios import ARRAY_LIBRARIES

LOADS = "import sys; from chimbuko.capture.trace.adios import adios2_bindings; adios2_bindings()"


@pytest.mark.parametrize("library", ARRAY_LIBRARIES)
def test_libraries_of_gpus_are_not_loaded_and_can_be_loaded_afterwards(library: str, tmp_path: Path) -> None:
    (tmp_path / f"{library}.py").write_text("print('loaded')")
    code = f"{LOADS}; print('then'); import {library}"
    assert _printed(code, tmp_path).split() == ["then", "loaded"]


def test_what_the_program_has_loaded_itself_stays(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("class Tensor: pass")
    code = f"import torch; {LOADS}; assert sys.modules['torch'] is torch"
    assert _printed(code, tmp_path) == ""


def test_adios2_works_where_no_home_is_set(tmp_path: Path) -> None:
    assert _printed(f"{LOADS}; adios2_bindings().ADIOS()", tmp_path) == ""


def _printed(code: str, packages: Path) -> str:
    environment = {"PYTHONPATH": str(packages)}
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True, timeout=60)
