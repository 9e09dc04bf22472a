"""A cluster with a real Slurm on this machine: its nodes are namespaces, each with a network, a hostname,
processes, a ``/tmp`` and a ``/dev/shm`` of its own. What kills the first process of a node takes all others
with it, as a failure of its power would.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.integration.namespaces import Network, NotPermitted

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "unshare", "nsenter")
KILL_WAIT_S = 30
"""Slurm's default: so long after SIGTERM it kills."""

_SETTINGS = """
ClusterName=chimbuko
SlurmctldHost={login}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir=/tmp/slurmd
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait={kill_wait}
SlurmdParameters=config_overrides
NodeName={nodes} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# What is in the folder is shared by all nodes, also where it lies in /tmp.
_ENTER = """
hostname "$1"
exec 9<"$2"
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mkdir -p "$2" /tmp/slurmd
mount --no-canonicalize --bind /proc/self/fd/9 "$2"
mount --bind "$2/hosts" /etc/hosts
mount --bind /dev/null /etc/resolv.conf
exec 9<&-
shift 2
exec "$@"
"""


class Slurm:
    """A login node, which has the controller, and ``nodes`` further nodes, as a context.

    Raises
    ------
    NotPermitted
        On entering: a program is missing, or this machine does not allow it.
    """

    def __init__(self, nodes: int, kill_wait_s: int = KILL_WAIT_S) -> None:
        self._network = Network(nodes + 1)
        self._firsts: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()
        self._kill_wait_s = kill_wait_s
        self.login, *self.nodes = (self._network.name(node) for node in range(nodes + 1))
        self.folder = Path()
        """Shared by all nodes."""

    def __enter__(self) -> Slurm:
        path = f"{os.environ['PATH']}:/usr/sbin"
        missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
        if missing:
            raise NotPermitted(f"no {', '.join(missing)}: apt-get install slurmctld slurmd munge")
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="chimbuko-slurm-")))
        self.folder.chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "PATH": f"{Path(sys.executable).parent}:{path}",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        try:
            self._stack.enter_context(self._network)
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def on_login(self, *command: str | Path, cwd: Path | None = None, timeout_s: float = 60.0) -> str:
        """What a command prints on the login node.

        Raises
        ------
        AssertionError
            It fails.
        """
        return self.on(self.login, *command, cwd=cwd, timeout_s=timeout_s)

    def on(self, node: str, *command: str | Path, cwd: Path | None = None, timeout_s: float = 60.0) -> str:
        """Likewise, on any node."""
        done = subprocess.run(
            [
                *self._entering(node),
                "sh",
                "-c",
                'cd "$0" && exec "$@"',
                cwd or self.folder,
                *map(str, command),
            ],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """What this thread connects to meanwhile is on that node."""
        with self._network.inside([self.login, *self.nodes].index(node)):
            yield

    def submit(self, *arguments: str | Path, cwd: Path) -> int:
        """Number of a new job."""
        return int(self.on_login("sbatch", "--parsable", *arguments, cwd=cwd).split(";")[0])

    def state(self, job: int) -> str:
        """Such as PENDING, RUNNING or COMPLETED."""
        return self._of_job(job)["JobState"]

    def nodes_of(self, job: int) -> list[str]:
        """Of those that it has, in its order."""
        listed = self._of_job(job)["NodeList"]
        return self.on_login("scontrol", "show", "hostnames", listed).split()

    def _of_job(self, job: int) -> dict[str, str]:
        words = self.on_login("scontrol", "show", "job", str(job)).split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def wait_for_state(self, job: int, *states: str, timeout_s: float = 120.0) -> str:
        """The state, once it is one of these."""
        return until(
            lambda: found if (found := self.state(job)) in states else "", timeout_s, f"{states} of {job}"
        )

    def lose(self, node: str) -> None:
        """The node's power fails."""
        self._firsts[node].kill()
        self._firsts[node].wait()

    def bring_back(self, node: str) -> None:
        """As it was when it began."""
        self._start_node(node, "slurmd", "-D")
        until(self._is_up, 60.0, "nodes that are idle")

    def _start(self) -> None:
        for name in ("munge", "state", "log"):
            (self.folder / name).mkdir(mode=0o755)
        hosts = [f"{self._network.address(at)} {name}" for at, name in enumerate([self.login, *self.nodes])]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts, ""]))
        settings = _SETTINGS.format(
            login=self.login,
            nodes=",".join(self.nodes),
            folder=self.folder,
            kill_wait=self._kill_wait_s,
        )
        (self.folder / "slurm.conf").write_text(settings)
        # slurmd looks for control groups that it is not told to use, unless it is told which.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._start_munge()
        self._start_node(self.login, "slurmctld", "-D")
        for node in self.nodes:
            self._start_node(node, "slurmd", "-D")
        until(self._is_up, 60.0, "nodes that are idle")

    def _is_up(self) -> bool:
        # While the controller starts it does not answer.
        try:
            states = self.on_login("sinfo", "--noheader", "--Node", "--format=%T").split()
        except AssertionError:
            return False
        return states == ["idle"] * len(self.nodes)

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        options = {"key-file": key, "socket": folder / "socket", "pid-file": folder / "pid"}
        options |= {"log-file": folder / "log", "seed-file": folder / "seed"}
        self._keep(
            ["munged", "--foreground", *(f"--{name}={path}" for name, path in options.items())], "munged"
        )
        until(options["socket"].exists, 20.0, "munged's socket")

    def _start_node(self, node: str, *command: str) -> None:
        own = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        entered = ["sh", "-ec", _ENTER, "sh", node, str(self.folder), *command]
        self._firsts[node] = self._keep(["ip", "netns", "exec", node, *own, *entered], node)

    def _keep(self, command: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log" / f"{name}.out").open("wb") as output:
            return self._stack.enter_context(
                _ended(
                    subprocess.Popen(
                        command,
                        env=self.environment,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
            )

    def _entering(self, node: str) -> list[str]:
        first = until(lambda: self._first_process(node), 20.0, f"the first process of {node}")
        return ["nsenter", "--target", first, "--net", "--uts", "--mount", "--pid"]

    def _first_process(self, node: str) -> str:
        """Of the node: the child of ``unshare``."""
        pid = self._firsts[node].pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()

    def _end(self) -> None:
        self._stack.close()


Value = TypeVar("Value")


def until(condition: Callable[[], Value], timeout_s: float, what: str) -> Value:
    """What the condition gives, once that is true."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {timeout_s:.0f} s: {what}"
        time.sleep(0.2)
    return found


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
