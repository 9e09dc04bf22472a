"""A run on many nodes, which are network namespaces: services on one, on each of the others an agent, as job
scripts start it, and a part of a recorded program, written there as if it ran now.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from chimbuko.launcher.nodescript import NODE_VARIABLE
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Command, Outcome, command_line, descendants
from tests.integration.namespaces import Network
from tests.patience import PATIENCE_S

AGAIN = 'while "$@"; code=$?; [ "$code" -gt 128 ]; do sleep 1; done; exit "$code"'
"""What job scripts do with an agent that was killed."""
CHIMBUKO = [sys.executable, "-m", "chimbuko"]
PACE = 0.5
"""Of the program: it takes twice as long as when it was recorded."""
SERVICES = 0
"""Number of the node that has them."""
Started = subprocess.Popen[bytes] | subprocess.Popen[str]


class Farm(Outcome):
    """The run, as a context: nothing of it is left behind.

    Parameters
    ----------
    folder
        Of the run.
    parts
        Streams of the recorded program for each node, from node 1 on.
    options
        Of ``chimbuko serve``.
    strike
        Called with the number of the node for each process of services or an agent as it starts.
    """

    def __init__(
        self,
        network: Network,
        folder: Path,
        parts: Sequence[Sequence[Path]],
        *options: str,
        strike: Callable[[int, Started], object] = lambda node, process: None,
    ) -> None:
        super().__init__(folder)
        self.run = RunDirectory(folder)
        self.network = network
        self.nodes = {f"node{number}": number for number in range(1, len(parts) + 1)}
        self._parts = parts
        self._options = options
        self._strike = strike
        self.services: list[Command] = []
        """One after the other: all but the last were killed."""
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.programs: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self.serve(*self._options)
            for node in self.nodes:
                self._begin(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for process in (*self.agents.values(), *self.programs.values()):
            kill_tree(process)
        for services in self.services:
            if services.process.poll() is None:
                kill_tree(services.process)
            services.end()

    def serve(self, *options: str) -> None:
        """Start the services."""
        with self.network.inside(SERVICES):
            address = self.network.address(SERVICES)
            self.services.append(Command("serve", self.folder, "--bind", address, *options))
        self._strike(SERVICES, self.services[-1].process)
        self.services[-1].wait_for_line("services are ready")

    def kill_services(self) -> None:
        """All of them at once, as where their node is switched off."""
        kill_tree(self.services[-1].process)
        self.services[-1].end()

    def of_agent(self, node: str, module: str) -> list[int]:
        """Processes of a module among those of a node's agent."""
        pids = descendants(self.agents[node].pid)
        return [pid for pid in pids if module in command_line(pid)]

    def end(self) -> None:
        """Wait for the program, and end the run in order."""
        for program in self.programs.values():
            program.wait(120)
        with self.network.inside(SERVICES):
            subprocess.run([*CHIMBUKO, "stop", str(self.folder)], check=True, timeout=PATIENCE_S)
        code = self.services[-1].end(150)
        assert code == 0, self.output
        for agent in self.agents.values():
            agent.wait(PATIENCE_S)

    @property
    def output(self) -> str:
        """What the services have said, from the first to the last."""
        return "\n".join(services.output for services in self.services)

    def said(self, since_s: float) -> list[tuple[float, str]]:
        """Lines of the services since a moment, each with the seconds after it."""
        return [
            (at_s - since_s, line)
            for services in self.services
            for at_s, line in zip(services.times_s, services.lines, strict=False)
            if at_s >= since_s
        ]

    def _begin(self, node: str) -> None:
        number = self.nodes[node]
        words = [*CHIMBUKO, "replay", *map(str, self._parts[number - 1])]
        replay = f'{shlex.join(words)} --to "$(dirname "$TAU_ADIOS2_FILENAME")" --pace {PACE}'
        logs = self.folder.parent / f"{self.folder.name}-{node}.log"
        with self.network.inside(number), logs.open("wb") as log:
            for started, command in (
                (self.agents, ["bash", "-c", AGAIN, "agent", *CHIMBUKO, "agent", str(self.folder)]),
                (self.programs, [str(self.run.node_command), "sh", "-c", f"exec {replay}"]),
            ):
                started[node] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, NODE_VARIABLE: node},
                )
        self._strike(number, self.agents[node])


def kill_early(process: Started, module: str, after_s: float) -> None:
    """kill -9 of a process of a module below another one, so long after it can be seen, or of none where it
    is never seen.
    """
    while process.poll() is None:
        for pid in sorted(descendants(process.pid)):
            if module in command_line(pid):
                time.sleep(after_s)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                return


def kill_tree(process: Started) -> None:
    """A process and all below it, none of which has time for anything."""
    if process.poll() is None:
        for pid in (process.pid, *descendants(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()
