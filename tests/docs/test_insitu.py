"""The examples of docs/howto/insitu.md print what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from tests.places import ROOT

TEXT = (ROOT / "docs" / "howto" / "insitu.md").read_text()
EXAMPLES = re.findall(r"```console\n\$ chimbuko ([^\n]*)\n```\n\n```text\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With all files of the examples, each called by the last name before it."""
    made = tmp_path_factory.mktemp("examples")
    for block in re.finditer(r"```(?:csv|toml)\n(.*?)```", TEXT, re.DOTALL):
        name = re.findall(r"`(\w+\.(?:csv|toml))`", TEXT[: block.start()])[-1]
        (made / name).write_text(block[1])
    return made


def test_there_are_examples(folder: Path) -> None:
    assert len(EXAMPLES) == 5
    names = {"points.csv", "workflow.toml", "nek5000.toml", "qe.toml"}
    assert {path.name for path in folder.iterdir()} == names


@pytest.mark.parametrize(("line", "printed"), EXAMPLES, ids=[line for line, _ in EXAMPLES])
def test_an_example_prints_what_stands_there(
    line: str, printed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(main, shlex.split(line))
    assert (done.exit_code, done.stdout) == (0, printed)
