"""Whole nodes of a cluster on one machine: each has its name, network, processes and temporary folders.

They share the file system, as nodes of a cluster share that of runs; ``/dev/shm`` and ``$TMPDIR`` are each
node's own, and gone with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.integration.namespaces import Network, NotPermitted
from tests.patience import PATIENCE_S

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
TEMPORARY = "/var/tmp"
"""That of each node; ``/tmp``, with the folders of tests, is shared."""
_PROGRAMS = f"{os.environ['PATH']}:/usr/sbin"
_BEGIN = """
hostname "$0" && mount -t tmpfs none /dev/shm && mount -t tmpfs none {temporary} &&
mount --bind "$1" /etc/hosts && mount --bind /dev/null /etc/resolv.conf && {mount} &&
exec unshare --mount --pid --fork --kill-child --mount-proc sh -c 'echo ready; exec sleep infinity'
"""
"""What serves a file system is not among the processes of a node: in a real one that is its kernel."""


class Node:
    """One node, as a context; at the end all its processes are killed.

    Parameters
    ----------
    namespace
        Of its network.
    hosts
        File with the names of all nodes.
    mount
        Command that mounts what it shares with others.
    """

    def __init__(self, name: str, namespace: str, address: str, hosts: Path, mount: str = "true") -> None:
        self.name = name
        self.address = address
        self._namespace = namespace
        self._hosts = hosts
        self._mount = mount
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Node:
        own = ["unshare", "--uts", "--mount"]
        begin = _BEGIN.format(temporary=TEMPORARY, mount=self._mount)
        self._holder = subprocess.Popen(
            ["ip", "netns", "exec", self._namespace, *own, "sh", "-c", begin, self.name, str(self._hosts)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != "ready\n":
            self._holder.kill()
            raise NotPermitted(self._holder.stderr.read().strip())
        of_holder = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        (self._first,) = map(int, of_holder.read_text().split())
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(
        self, words: Sequence[str | Path], log: Path, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Run a command there; both outputs go into a log."""
        given = {"TMPDIR": TEMPORARY, **(environment or {})}
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "PYTHONPATH", "XDG_STATE_HOME")
            if name in os.environ
        }
        with log.open("ab") as output:
            started = subprocess.Popen(
                self._entered(words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=kept | given,
            )
        self._started.append(started)
        return started

    def call(self, words: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command there, in a folder, to its end."""
        return subprocess.run(
            self._entered(words, folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env={**os.environ, "TMPDIR": TEMPORARY},
        )

    def ask_to_end(self) -> subprocess.Popen[bytes]:
        """As a scheduler that ends a job: each process of the node is asked at once."""
        # But for the first one, which only holds it.
        return subprocess.Popen(self._entered(["sh", "-c", "kill -CONT -1; kill -TERM -1"]))

    def kill(self) -> None:
        """The node is gone: all its processes, and what was in its memory and its temporary folder."""
        if self._holder.poll() is None:
            os.kill(self._first, signal.SIGKILL)
        self._holder.communicate()
        for started in self._started:
            started.wait()

    @property
    def entry(self) -> list[str]:
        """Options of ``nsenter`` that lead there."""
        return ["--target", str(self._first), "--net", "--uts", "--mount", "--pid"]

    def _entered(self, words: Sequence[str | Path], folder: Path = Path("/")) -> list[str]:
        # A folder that is given to nsenter is what stands there outside.
        begin = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder)]
        return ["nsenter", *self.entry, "--", *begin, *map(str, words)]


class Cluster:
    """Nodes, and the network between them."""

    def __init__(self, network: Network, nodes: list[Node]) -> None:
        self.network = network
        self.nodes = nodes

    def ask_to_end(self) -> None:
        """Each process of all nodes is asked to end, at once."""
        for asking in [node.ask_to_end() for node in self.nodes]:
            asking.wait()


@contextmanager
def cluster(nodes: int, folder: Path, shared: Path | None = None) -> Iterator[Cluster]:
    """Nodes ``node0`` and so on, while the context lasts.

    Parameters
    ----------
    shared
        Where all of them find what is in ``folder / "exported"``, over the network, from a node more that
        serves it by sshfs: locks, caches and times are those of a file system of this kind.

    Raises
    ------
    NotPermitted
        This machine does not let us make them, or lacks a program for it.
    """
    hosts = folder / "hosts"
    with ExitStack() as stack:
        network = stack.enter_context(Network(nodes + 1))
        names = [f"node{number}" for number in range(nodes)] + ["files"]
        lines = [f"{network.address(number)} {name}" for number, name in enumerate(names)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        mount = "true"
        if shared is not None:
            shared.mkdir()
            server = Node("files", network.name(nodes), network.address(nodes), hosts)
            mount = f"{_served(stack.enter_context(server), folder)} {shared}"
        made = [
            Node(f"node{number}", network.name(number), network.address(number), hosts, mount)
            for number in range(nodes)
        ]
        for node in made:
            stack.enter_context(node)
        yield Cluster(network, made)


def by_ssh(nodes: Sequence[Node], folder: Path) -> dict[str, str]:
    """Let nodes log in on each other; returns the environment in which ``ssh`` does so without a password.

    Raises
    ------
    NotPermitted
        There is no sshd here, or it does not start.
    """
    _let_in(folder, nodes, "ssh")
    (folder / "bin").mkdir()
    ssh = folder / "bin" / "ssh"
    options = " ".join(f"-o {option}" for option in _login(folder))
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh", path=_PROGRAMS)} -q {options} "$@"\n')
    ssh.chmod(0o755)
    return {"PATH": f"{ssh.parent}:{os.environ['PATH']}"}


def _let_in(folder: Path, nodes: Sequence[Node], client: str) -> None:
    """Start a real sshd on nodes, which lets in who has the key in ``folder``."""
    missing = [name for name in (client, "sshd", "ssh-keygen") if shutil.which(name, path=_PROGRAMS) is None]
    if missing:
        raise NotPermitted(f"no {', '.join(missing)}: apt-get install openssh-server")
    key, config = folder / "key", folder / "sshd_config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    config.write_text(
        f"HostKey {key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
        "PermitRootLogin yes\nSubsystem sftp internal-sftp\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd = str(shutil.which("sshd", path=_PROGRAMS))
    for node in nodes:
        log = folder / f"sshd-{node.name}.log"
        # It answers from the moment on when this has ended.
        words = [sshd, "-f", config, "-E", log, "-o", f"ListenAddress={node.address}"]
        if node.start(words, log).wait(PATIENCE_S):
            raise NotPermitted(log.read_text())


def _login(folder: Path) -> tuple[str, ...]:
    """Options of ssh, and of what uses it."""
    return f"IdentityFile={folder / 'key'}", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"


def _served(server: Node, folder: Path) -> str:
    """Command, but for its last word, that mounts ``folder / "exported"``: a node serves it from now on."""
    _let_in(folder, [server], "sshfs")
    (folder / "exported").mkdir()
    options = list(_login(folder))
    # Caches of a second, as other file systems can be told; theirs of a minute would only make tests longer.
    options += ["dcache_timeout=1", "attr_timeout=1", "entry_timeout=1", "negative_timeout=1"]
    return f"sshfs -o {','.join(options)} root@{server.address}:{folder / 'exported'}"


def wait_until_ended(processes: Sequence[subprocess.Popen[bytes]], timeout_s: float) -> float:
    """Wait until all have ended, and no longer than that; seconds that it took."""
    began_s = time.monotonic()
    while any(one.poll() is None for one in processes) and time.monotonic() - began_s < timeout_s:
        time.sleep(0.02)
    return time.monotonic() - began_s
