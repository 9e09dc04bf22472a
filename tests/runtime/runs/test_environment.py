from __future__ import annotations

import platform
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.redaction import SECRET_NAMES
from chimbuko.runtime.runs.environment import LONGEST, cpu_model, kept_variables, surroundings


def test_settings_of_a_job_are_kept_and_nothing_else() -> None:
    environment = {
        "TAU_METRICS": "TIME",
        "OMP_NUM_THREADS": "4",
        "SLURM_NTASKS": "64",
        "OMPI_COMM_WORLD_SIZE": "64",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LOADEDMODULES": "gcc/12:openmpi/4",
        "HOME": "/home/me",
        "EDITOR": "vi",
        "PGPASSWORD": "hush",
        "CHIMBUKO_STORE": "postgresql://me:hush@db/x",
    }
    kept = kept_variables(environment)
    assert kept == {name: environment[name] for name in sorted(environment) if name in kept}
    assert kept.keys() == environment.keys() - {
        *("HOME", "EDITOR", "PGPASSWORD", "CHIMBUKO_STORE"),
    }


@pytest.mark.parametrize("name", ["SLURM_JWT", "SLURM_TOKEN", "OMPI_SECRET", "TAU_API_KEY", "PMI_PASSWORD"])
def test_what_sounds_secret_is_left_out(name: str) -> None:
    assert kept_variables({name: "hush"}) == {}


@given(st.sampled_from(SECRET_NAMES), st.text(string.ascii_letters, max_size=5), st.booleans())
def test_no_variable_with_a_secret_word_is_kept(word: str, more: str, is_small: bool) -> None:
    assert kept_variables({f"SLURM_{more}{word.lower() if is_small else word}{more}": "hush"}) == {}


def test_long_values_are_cut() -> None:
    assert len(kept_variables({"LOADEDMODULES": "x" * 5000})["LOADEDMODULES"]) == LONGEST


def test_the_processor_is_named() -> None:
    text = "processor\t: 0\nmodel name\t: A CPU @ 2.4 GHz\nflags\t: fpu\n\nmodel name\t: another\n"
    assert cpu_model(text) == "A CPU @ 2.4 GHz"
    assert cpu_model("") == ""


def test_what_this_runs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = surroundings()
    assert found["OMP_NUM_THREADS"] == "3"
    assert found["python"] == platform.python_version()
    assert found["numpy"] and found["kernel"] and int(found["cores"])
    assert all(found.values())
