"""Runs where not all is allowed: in containers, in user namespaces, and under filters of system calls."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.conftest import Outcome

pytestmark = pytest.mark.cold

CODE = 7
PROGRAM = f"""
import sys, time
def work(): time.sleep(0.005)
for _ in range(200): work()
sys.exit({CODE})
"""
CALLS = 202
X86_64 = {
    "ptrace": 101,
    "process_vm_readv": 310,
    "perf_event_open": 298,
    "pidfd_open": 434,
    "kcmp": 312,
    "memfd_create": 319,
}
"""Numbers of system calls that containers often refuse."""
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOWED, REFUSED = 0x7FFF0000, 0x00050001
NO_NEW_PRIVILEGES, SET_FILTER, FILTERED = 38, 22, 2
READ_ONLY = """
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,ro,bind /
shift
exec "$@"
"""


class _Filter(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("code", ctypes.c_char_p))


def refuse_calls() -> None:
    """Refuse this process, and those that it starts, these system calls."""
    code = struct.pack("HBBI", LOAD, 0, 0, 0)
    for number in X86_64.values():
        code += struct.pack("HBBI", JUMP_IF_EQUAL, 0, 1, number) + struct.pack("HBBI", RETURN, 0, 0, REFUSED)
    code += struct.pack("HBBI", RETURN, 0, 0, ALLOWED)
    libc = ctypes.CDLL(None)
    assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    assert libc.prctl(SET_FILTER, FILTERED, ctypes.byref(_Filter(len(code) // 8, code))) == 0


def run_confined(
    tmp_path: Path, words: Sequence[str | Path], temporary: Path, is_filtered: bool = False
) -> tuple[Outcome, str]:
    """Run the program; return what the run left, and its output."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "out").mkdir()
    run = [sys.executable, "-m", "chimbuko", "run", "--no-dashboard", "-o", tmp_path / "out" / "run", "--"]
    traced = [sys.executable, "-m", "chimbuko", "trace", tmp_path / "program.py"]
    done = subprocess.run(
        list(map(str, [*words, *run, *traced])),
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=refuse_calls if is_filtered else None,
    )
    assert done.returncode == CODE, done.stdout
    assert "Traceback" not in done.stdout
    outcome = Outcome(tmp_path / "out" / "run")
    assert outcome.info.state == "finished", done.stdout
    assert len(outcome.health) == 1, done.stdout
    (stream,) = outcome.health
    assert stream.calls == CALLS, done.stdout
    return outcome, done.stdout


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="takes root, and the command unshare"
)
def test_a_container_whose_root_is_read_only(tmp_path: Path) -> None:
    """Nor can anything be written where temporary files are: the run's folder has them."""
    words = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", tmp_path / "out"]
    outcome, _ = run_confined(tmp_path, words, tmp_path / "none")
    assert (outcome.folder / "temporary").is_dir()


@pytest.mark.skipif(
    subprocess.run(["unshare", "-U", "-r", "true"], check=False, capture_output=True).returncode != 0,
    reason="no user namespaces here, or no command unshare",
)
def test_a_user_namespace(tmp_path: Path) -> None:
    run_confined(tmp_path, ["unshare", "-U", "-r"], tmp_path)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are those of x86-64")
def test_a_filter_of_system_calls(tmp_path: Path) -> None:
    run_confined(tmp_path, [], tmp_path, is_filtered=True)
