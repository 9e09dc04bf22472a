"""Secrets in command lines and variables are not kept, and everything else is."""

from __future__ import annotations

import secrets
import shlex

import pytest

from chimbuko.core.redaction import PROGRAM_ONLY_VARIABLE, without_secret, without_secrets


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("./app --password=geheim -n 4", "./app --password=*** -n 4"),
        ("./app --api-key geheim --size 4", "./app --api-key *** --size 4"),
        ("./app --use-token --size 4", "./app --use-token --size 4"),
        ("env DB_PASSWORD=geheim HOME=/home/me ./app", "env DB_PASSWORD=*** HOME=/home/me ./app"),
        ("psql postgresql://me:geheim@host:5432/runs", "psql postgresql://me:***@host:5432/runs"),
        ("curl -H Authorization:geheim url", "curl -H Authorization:*** url"),
        ("mpirun -n 4 ./heat2d --iterations 100", "mpirun -n 4 ./heat2d --iterations 100"),
        ("./app /data/passes=3/keyed=1/in.bp", "./app /data/passes=3/keyed=1/in.bp"),
        (
            "git checkout da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "git checkout da39a3ee5e6b4b0d3255bfef95601890afd80709",
        ),
        (
            "./simulation_of_HeatDiffusion2D_v3_finalRun checkpoint_2025-10-30T10-22-33Z_Node17",
            "./simulation_of_HeatDiffusion2D_v3_finalRun checkpoint_2025-10-30T10-22-33Z_Node17",
        ),
    ],
)
def test_command_lines(given: str, kept: str) -> None:
    assert without_secrets(shlex.split(given)) == kept.split(" ")


def test_what_looks_like_a_secret_is_one() -> None:
    # Letters and digits of both cases, as most services make them; one in a hundred has too few of them.
    made = ["aA0" + secrets.token_urlsafe(40).replace("-", "x") for _ in range(100)]
    assert sum(without_secret(one) == "***" for one in made) >= 95
    known = "gh" + "p_" + "0123456789abcdefghij"
    assert without_secret(f"https://host/?x={known}") == "https://host/?x=***"


def test_of_a_command_line_nothing_but_the_program_is_kept_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PROGRAM_ONLY_VARIABLE, "1")
    assert without_secrets(["./heat", "--patient", "Doe"]) == ["./heat"]
    assert without_secrets(word for word in ()) == []
