from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.core.config import AnalysisConfig
from chimbuko.launcher.assembly import run_with_store
from chimbuko.provenance.alerts.sinks import WEBHOOK

SECRET = "hush-T0ken"


def complaint(capfd: pytest.CaptureFixture[str], *words: str, **environment: str) -> str:
    """What is said of these words of ``chimbuko run``, which cannot be used."""
    done = CliRunner().invoke(main, ["run", *words, "--", "true"], env={WEBHOOK.variable: "", **environment})
    assert done.exit_code == 2, done.output
    said = done.output + capfd.readouterr().err
    assert SECRET not in said
    return said


def test_alerts_need_somebody_to_tell(capfd: pytest.CaptureFixture[str]) -> None:
    assert "there is nobody to alert" in complaint(capfd, "--alert", "5ms")


def test_a_wrong_severity_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert "not a duration" in complaint(capfd, "--alert", "much", "--alert-command", "cat")


@pytest.mark.parametrize("url", [f"ftp://host/{SECRET}", f"https://me:{SECRET}@host/"])
def test_a_wrong_address_is_refused_and_not_repeated(capfd: pytest.CaptureFixture[str], url: str) -> None:
    assert "not usable" in complaint(capfd, "--alert", "5ms", **{WEBHOOK.variable: url})


def test_only_its_owner_can_read_the_password_of_a_store(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://me:{SECRET}@db/x?sslmode=require"
    run = run_with_store(tmp_path / "run", ["app"], AnalysisConfig(), url)
    info = run.read_info()
    assert info.store_url == "postgresql+psycopg://me:***@db/x"
    assert SECRET not in run.info_path.read_text()
    assert run.used_store_url(info) == url
    assert run.store_url_path.stat().st_mode & 0o077 == 0
    assert info.environment["python"]
