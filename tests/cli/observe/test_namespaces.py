"""``chimbuko namespaces`` as a user has it: from the first command to Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from tests.patience import PATIENCE_S

CHIMBUKO = [sys.executable, "-m", "chimbuko"]


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CHIMBUKO, "namespaces", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd
    )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a service that a user has started."""
    folder = tmp_path_factory.mktemp("namespaces")
    serving = start("serve", "observations", "--namespace", "weather", "--cores", usable_core(), cwd=folder)
    assert serving.stderr is not None
    line = serving.stderr.readline()
    path = folder / "observations"
    assert line == f"chimbuko: namespaces are served; programs find them with CHIMBUKO_NAMESPACES={path}\n"
    yield path
    serving.send_signal(signal.SIGINT)
    out, errors = serving.communicate(timeout=PATIENCE_S)
    assert (serving.returncode, out, errors) == (0, "", "")


def usable_core() -> str:
    return str(min(os.sched_getaffinity(0)))


def chimbuko(*words: str, service: Path | None = None, code: int = 0) -> str:
    environment = {PLACE_VARIABLE: str(service)} if service else {PLACE_VARIABLE: ""}
    done = CliRunner().invoke(main, ["namespaces", *words], env=environment)
    assert done.exit_code == code, done.output
    return done.output


def test_what_is_published_is_read(service: Path, tmp_path: Path) -> None:
    chimbuko("publish", "application", "loss=0.25", "field/min=[1, 2]", "name=heat 2d", service=service)
    chimbuko("publish", "application", "field/min=[3]", "--append", service=service)
    assert chimbuko("read", "application", service=service).splitlines() == [
        '"loss": 0.25',
        '"name": "heat 2d"',
        '"field":',
        '  "min": [1, 2, 3]',
    ]
    assert json.loads(chimbuko("read", "application", "field", "--form", "json", service=service)) == {
        "field": {"min": [1, 2, 3]}
    }
    file = tmp_path / "out.conduit"
    chimbuko("read", "application", "--form", "conduit_base64_json", "-o", str(file), service=service)
    assert json.loads(file.read_text())["schema"]["loss"]["dtype"] == "float64"
    counts = json.loads(chimbuko("counts", service=service))
    assert counts["application"][0]["publications"] == 2 and counts["weather"][0]["publications"] == 0


def test_it_is_said_where_nothing_is_at_a_key(service: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = chimbuko("read", "weather", "wind/x", service=service, code=2)
    assert "wind/x: nothing is there; 'chimbuko namespaces read weather' prints all keys\n" in (
        said + capfd.readouterr().err
    )
    assert chimbuko("read", "weather", service=service) == "{}\n"
    assert capfd.readouterr().err == ""


def test_publishing_waits_for_a_service_that_a_script_has_just_started(tmp_path: Path) -> None:
    publishing = start("publish", "application", "a=1", "--service", "soon", cwd=tmp_path)
    serving = start("serve", "soon", "--cores", usable_core(), cwd=tmp_path)
    try:
        assert publishing.communicate(timeout=PATIENCE_S) == ("", "")
        assert publishing.returncode == 0
        assert '"a": 1' in chimbuko("read", "application", service=tmp_path / "soon")
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=PATIENCE_S)


def test_what_comes_is_watched_until_ctrl_c(service: Path) -> None:
    chimbuko("publish", "weather", "wind/speed=3.5", service=service)
    watching = start("watch", "weather", "wind", "--past", "--service", str(service), cwd=service)
    assert watching.stdout is not None
    assert watching.stdout.readline().endswith("  rank 0  wind/speed = 3.5\n")
    chimbuko("publish", "weather", "rain=true", "wind/gusts=[1.5]", service=service)
    assert watching.stdout.readline().endswith("  rank 0  wind/gusts = [1.5]\n")
    watching.send_signal(signal.SIGINT)
    out, errors = watching.communicate(timeout=PATIENCE_S)
    assert (watching.returncode, out, errors) == (130, "", "")
    as_json = start("watch", "weather", "--past", "--json", "--service", str(service), cwd=service)
    assert as_json.stdout is not None
    assert json.loads(as_json.stdout.readline())["put"] == {"wind/speed": 3.5}
    as_json.send_signal(signal.SIGINT)
    assert as_json.wait(PATIENCE_S) == 130


def test_jobs_are_admitted_and_dismissed(service: Path) -> None:
    place = chimbuko("admit", str(service), "heat").strip()
    assert place == str(service / "jobs" / "heat" / "writer")
    chimbuko("publish", "application", "a=1", service=Path(place))
    assert chimbuko("read", "application", service=Path(place)) == '"a": 1\n'
    assert '"a": 1' not in chimbuko("read", "application", service=service)
    # Once more it keeps its place.
    text = Path(place).read_text()
    chimbuko("admit", str(service), "heat")
    assert Path(place).read_text() == text
    chimbuko("dismiss", str(service), "heat")
    deadline_s = time.monotonic() + PATIENCE_S
    while (
        "cannot be used" not in CliRunner().invoke(main, ["namespaces", "counts", "--service", text]).output
    ):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_an_analysis_is_printed_and_published(service: Path) -> None:
    for total in (0, 100):
        chimbuko(
            "publish", "hardware", f"node1/stat/cpu=[{total}, 0, 0, {total * 3}, 0, 0, 0, 0]", service=service
        )
    words = ("analyse", "hardware", "cpu-utilisation", "--form", "json", "--publish", "analysis")
    found = json.loads(chimbuko(*words, service=service))
    assert found["node1"]["utilisation_percent"] == 25.0
    kept = json.loads(chimbuko("read", "hardware", "analysis", "--form", "json", service=service))
    assert kept == {"analysis": found}


def test_an_analysis_goes_on_beside_programs_until_ctrl_c(service: Path) -> None:

    words = ("analyse", "workflow", "task-states", "--publish", "found", "--every", "0.1s")
    going = start(*words, "--service", str(service), cwd=service)
    for state in ("NEW", "DONE"):
        chimbuko("publish", "workflow", f"a/states/{len(state)}.0={state}", service=service)
        deadline_s = time.monotonic() + PATIENCE_S
        while f'"state": "{state}"' not in chimbuko("read", "workflow", service=service):
            assert time.monotonic() < deadline_s and going.poll() is None
    going.send_signal(signal.SIGINT)
    out, errors = going.communicate(timeout=PATIENCE_S)
    assert (going.returncode, out, errors) == (130, "", "")


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("publish", "application", "loss"), 2, "chimbuko: 'loss': is no KEY=VALUE; give one like loss=0.25"),
        (
            ("publish", "application", "a=null"),
            7,
            "chimbuko: a: a NoneType is no value to observe",
        ),
        (("publish", "application", "a/=1"), 7, "chimbuko: key '': cannot be used"),
        (
            ("publish", "sports", "a=1"),
            2,
            "chimbuko: 'sports': no namespace of service namespaces, which has workflow, application, "
            "hardware, performance, weather; start it with --namespace sports",
        ),
        (
            ("read", "application/Rank 3/x"),
            2,
            "performance, weather; 'Rank 3/x' is a key, to be given apart from its namespace; "
            "'chimbuko namespaces read application' prints all keys",
        ),
        (
            ("analyse", "hardware", "weather"),
            2,
            "chimbuko: 'weather': no analysis; there are cpu",
        ),
        (
            ("analyse", "hardware", "weather", "--publish", "a", "--every", "1s"),
            2,
            "chimbuko: 'weather': no analysis; there are cpu",
        ),
        (
            ("analyse", "hardware", "task-states", "--every", "1s"),
            2,
            "--every and --worker: say by --publish",
        ),
        (("work", "{service}", "--job", "heat"), 2, "chimbuko: 'heat': no job of this service, which has"),
        (("work", "/tmp"), 2, "chimbuko: /tmp: is no folder of a service"),
        (("read", "application", "-o", "/no/such/file"), 2, "chimbuko: /no/such/file: cannot be written"),
        (("dismiss", "{service}", "nobody"), 2, "chimbuko: 'nobody': no job of this service, which has"),
        (("admit", "{service}", "a b"), 2, "chimbuko: 'a b': no name of a job"),
        (("admit", "/tmp", "a"), 2, "chimbuko: /tmp: is no folder of a service"),
        (("serve", "{service}"), 4, "another process is at work there already"),
        (("serve", "new", "--keep", "much"), 2, "chimbuko: 'much': not a size"),
        (("serve", "new", "--namespace", "a/b"), 2, "chimbuko: 'a/b': no name of a namespace"),
        (("serve", "new", "--bind", "lo:x"), 2, "chimbuko: --bind lo:x: 'x' is no port"),
    ],
)
def test_errors_are_one_line(service: Path, words: tuple[str, ...], code: int, why: str) -> None:
    output = chimbuko(*(word.format(service=service) for word in words), service=service, code=code)
    assert why in output and len(output.strip().splitlines()) == 1


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert "is no folder of a service; name a new one" in chimbuko("serve", str(tmp_path), code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_without_a_service_it_is_said_how_to_name_one() -> None:
    assert "set CHIMBUKO_NAMESPACES to its folder" in chimbuko("read", "application", code=2)
