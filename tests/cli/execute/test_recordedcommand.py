"""Which programs of a command are recorded."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from chimbuko.cli.execute.interpreter import records_itself
from chimbuko.cli.execute.recordedcommand import recorded_command

TRACE = (sys.executable, "-m", "chimbuko", "trace")


def test_python_with_a_program_is_recorded(tmp_path: Path) -> None:
    assert recorded_command((sys.executable, "app.py", "1")) == (*TRACE, sys.executable, "app.py", "1")
    assert recorded_command((sys.executable, "-m", "tool")) == (*TRACE, sys.executable, "-m", "tool")
    # A verb of ours records by itself.
    own = (sys.executable, "-m", "chimbuko", "trace", "app.py")
    for words in (own, (sys.executable, "-c", "1"), (sys.executable,), ("date",), ()):
        assert recorded_command(words) == words


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("from chimbuko import tracer\ntracer.start('app', 2)", True),
        ("run([sys.executable, '-m', 'chimbuko', 'trace', '--rank', '1'])", True),
        ("os.system('chimbuko trace ./app')", True),
        ("from chimbuko import tracer\n@tracer.traced\ndef step(): pass", False),
        ("import chimbuko.tracer", False),
    ],
)
def test_script_that_records_itself_is_left_to_it(text: str, does: bool, tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(text)
    assert records_itself(script) == does
    assert (recorded_command((sys.executable, str(script))) == (sys.executable, str(script))) == does
    # A script by itself is Python's, whoever records it.
    assert (recorded_command((str(script), "1")) == (sys.executable, str(script), "1")) == does
    assert not records_itself(tmp_path / "nowhere.py")


@pytest.mark.parametrize(
    ("name", "first", "by"),
    [
        ("app.py", "", (sys.executable,)),
        ("app.py", f"#!{sys.executable} -u", (sys.executable, "-u")),
        ("app.py", "#!/usr/bin/env python3", ("python3",)),
        ("app", "#!/usr/bin/env -S python3 -O", ("python3", "-O")),
        ("app", "", ()),
        ("app.py", "#!/bin/sh", ()),
    ],
)
def test_an_executable_script_is_recorded_by_the_python_of_its_first_line(
    name: str, first: str, by: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / name
    script.write_text(f"{first}\nprint(1)\n")
    script.chmod(0o755)
    words = (str(script), "1")
    alone = by == (sys.executable,)
    assert recorded_command(words) == ((*TRACE, *(() if alone else by), *words) if by else words)
    monkeypatch.chdir(tmp_path)
    # Not in PATH, but here: only a script of Python is meant by its bare name.
    bare = (name, "1")
    is_meant = bool(by) and name.endswith(".py")
    assert recorded_command(bare) == ((*TRACE, *(() if alone else by), *bare) if is_meant else bare)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, which is the current one."""
    for name in ("app", "other", "of_tau"):
        shutil.copy("/bin/true", tmp_path / name)
    with open(tmp_path / "of_tau", "ab") as file:
        file.write(b"\0TAU_PLUGINS\0")
    for name, text in (
        ("wrap.sh", '#!/bin/sh\nexec "$@"'),
        ("of_tau.sh", "#!/bin/sh\ntau_exec ./app"),
        ("solver.py", "import mpi4py"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_MCPU_HOSTS", "FLUX_URI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "mpirun -n 4 | ./app -n 2",
        "mpiexec.hydra -genv A -x -np 2 -bind-to core | ./app",
        "/opt/mpi/bin/mpirun --oversubscribe --mca btl self -x PATH -H localhost:4 --np 2 | ./wrap.sh ./app",
        "mpirun -n 1 | ./app a b : -n 2 | ./other",
        "mpirun -n 2 | bash -c ./app",
        "mpirun -n 2 --bind-to=core | solver.py 3",
        "mpirun -n 2 | python3 solver.py",
        "| ./app",
        # Theirs, not known, on other nodes, or recorded already.
        "mpirun -n 4 ./of_tau",
        "mpirun -n 4 ./of_tau.sh",
        "mpirun -n 4 tau_exec ./app",
        "mpirun -n 4 chimbuko trace ./app",
        "mpirun -n 4 ./app : -n 1 chimbuko trace ./other",
        "mpirun -n 4 --unheard-of ./app",
        "mpirun -hostfile nodes ./app",
        "mpirun -H localhost,far ./app",
        "mpirun -n 4 ./nowhere",
        "mpirun -n 4",
        "mpirun --version",
        "srun -n 4 ./app",
        "./of_tau",
        "./wrap.sh ./app",
        "/bin/true",
    ],
)
def test_programs_of_the_user_are_recorded(command: str, programs: Path) -> None:
    words = command.split()
    wanted = [part for word in words for part in (TRACE if word == "|" else (word,))]
    assert [*recorded_command([word for word in words if word != "|"])] == wanted


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("srun -n4 -lu --mpi=pmix ./app", 4),
        ("srun --ntasks 4 -c 2 ./app", 5),
        ("srun -N1 --exclusive ./app", 3),
        ("srun -nl --multi-prog ./app", None),
    ],
)
def test_job_of_slurm_on_one_node(
    command: str, at: int | None, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command.split()
    wanted = words if at is None else [*words[:at], *TRACE, *words[at:]]
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    assert [*recorded_command(words)] == wanted
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert [*recorded_command(words)] == words
    assert [*recorded_command(["mpirun", "./app"])] == ["mpirun", "./app"]
