"""Whole runs of a small program, over which signals come at moments that nobody chose.

``python -m tests.integration.chaos --runs 100`` tries so many, and prints a line for each; with ``--seed`` a
run that failed is tried again. ``--site`` has them use a PostgreSQL server and a broker over TLS, which die
now and then, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from chimbuko.capture.follow.space import MEMORY
from chimbuko.launcher.application import TITLE
from chimbuko.monitor.sampling.identity import start_ticks_of
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerdoor import BrokerDoor
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import AGENT, BROKER, SERVER, STORE, Run, command_line, descendants
from tests.integration.faults import assert_all_counted_once, assert_all_stored_once
from tests.patience import PATIENCE_S
from tests.postgresql import PostgresqlServer

GUARD = "chimbuko.capture.follow.guard"
DASHBOARD = "chimbuko.viz"
PARTS = (BROKER, GUARD, SERVER, STORE, AGENT, TITLE, DASHBOARD)
CODE = 7
"""Exit code of the program."""
WORK = 300
PROGRAM = f"""
import sys, time

def work(seconds):
    time.sleep(seconds)

for number in range({WORK}):
    work(0.1 if number % 60 == 59 else 0.005)
sys.exit({CODE})
"""
LATEST_S = 4.0
"""Latest moment of a signal: the program and its analysis take about so long."""
STOPPED_S = 1.0
LOOK_S = 0.05
MARK = "CHIMBUKO_CHAOS"
"""Environment variable by which each process of a run is known, whoever started it."""


@dataclass(frozen=True)
class Strike:
    """A signal to a process of ours, so many seconds after the start of the run."""

    part: str
    is_kill: bool
    after_s: float

    def __str__(self) -> str:
        what = "killed" if self.is_kill else "stopped"
        return f"{self.part.rpartition('.')[2]} {what} at {self.after_s:.2f} s"


DATABASE, DOOR, SITES_BROKER = SITES_PARTS = "the database", "the door of the broker", "the site's broker"
AWAY_S = 1.0
"""Time for which what the site has is away."""


class Site:
    """A PostgreSQL server and a broker over TLS, as a site has them, for many runs."""

    def __init__(self, folder: Path) -> None:
        self._database = PostgresqlServer()
        self._broker = PrivateBroker(folder / "broker.log")
        self._door = BrokerDoor(folder, "127.0.0.1", 0)
        # What is started ends with the thread that has started it.
        self._starter = ThreadPoolExecutor(1)
        self._starter.submit(self._broker.start).result()
        self._starter.submit(self._door.open, self._broker.url).result()

    @property
    def variables(self) -> dict[str, str]:
        """Variables by which a run uses them."""
        return {"CHIMBUKO_BROKER": self._door.url, "CHIMBUKO_STORE": self._database.url}

    def kill(self, part: str) -> None:
        """Kill one of them, and start it again a while later."""
        if part == DATABASE:
            self._database.kill()
        else:
            os.kill(self._door.pid if part == DOOR else self._broker.pid, signal.SIGKILL)
        time.sleep(AWAY_S)
        if part == DATABASE:
            self._database.start()
        elif part == DOOR:
            self._starter.submit(self._door.open, self._broker.url).result()
        else:
            self._starter.submit(self._broker.start).result()

    def remove(self) -> None:
        """Stop both."""
        self._door.close()
        self._broker.stop()
        self._database.remove()
        self._starter.shutdown()


def strikes_of(chance: random.Random, parts: Sequence[str] = PARTS) -> list[Strike]:
    """Draw what comes over one run."""
    return sorted(
        (
            Strike(chance.choice(parts), chance.random() < 0.75, chance.uniform(0.0, LATEST_S))
            for _ in range(chance.randint(1, 3))
        ),
        key=lambda strike: strike.after_s,
    )


class Chaos:
    """One run of the program with its strikes; ``check`` says whether it came through.

    Parameters
    ----------
    folder
        Folder for the run and its temporary files, which is empty.
    site
        Database and broker; None for those of the run.
    """

    def __init__(self, folder: Path, transport: str, strikes: list[Strike], site: Site | None = None) -> None:
        self._site = site
        self._transport = transport
        self._strikes = strikes
        self._mark = uuid.uuid4().hex
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        words = "--transport", transport, "--", sys.executable, "-m", "chimbuko", "trace"
        environment = {MARK: self._mark, "TMPDIR": str(self._temporary)}
        environment |= site.variables if site else {}
        self.run = Run(folder / "run", *words, folder / "program.py", environment=environment)
        self._struck: set[str] = set()
        self._seen: dict[int, int] = {}
        """Start of each process of the run that was ever seen, in ticks."""
        self._broker_folder: Path | None = None

    def check(self) -> None:
        """Let all strikes come, and see that the program ran, nothing was lost or doubled, nothing is left.

        Raises
        ------
        AssertionError
            Something of that is not so.
        """
        strikes = [threading.Thread(target=self._strike, args=(one,)) for one in self._strikes]
        watch = threading.Thread(target=self._watch)
        for thread in (watch, *strikes):
            thread.start()
        self._note_broker()
        if any(strike.part == DASHBOARD for strike in self._strikes):
            self._visit()
        code = self.run.end()
        for thread in (watch, *strikes):
            thread.join()
        assert code == CODE, self.run.output
        assert "Traceback" not in self.run.output, self.run.output
        assert self.run.info.exit_code == CODE, self.run.output
        self._assert_nobody_is_left()
        if TITLE in self._struck and self.run.info.state != "finished":
            self._deliver()
        else:
            assert self.run.info.state == "finished", self.run.output
            self._assert_nothing_is_lost()
        if TITLE in self._struck:
            # It may have noted the end, and was killed before it tidied up: the next run of the user does.
            for folder in (
                *self._temporary.iterdir(),
                *([self._broker_folder] if self._broker_folder else []),
            ):
                shutil.rmtree(folder, ignore_errors=True)
        self._assert_nothing_is_left()

    def _strike(self, strike: Strike) -> None:
        time.sleep(strike.after_s)
        if self._site is not None and strike.part in SITES_PARTS:
            self._site.kill(strike.part)
            return
        for pid in self._processes():
            if strike.part in command_line(pid):
                self._struck.add(strike.part)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if strike.is_kill else signal.SIGSTOP)
                    if not strike.is_kill:
                        time.sleep(STOPPED_S)
                        os.kill(pid, signal.SIGCONT)
                return

    def _processes(self) -> list[int]:
        """Return the processes of the run, and no other on this machine.

        Most of ours write their title over their environment: they are known by who has started them, for as
        long as that one lives.
        """
        mark = f"{MARK}={self._mark}".encode()
        found = {self.run.process.pid, *descendants(self.run.process.pid)}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.add(int(path.name))
        for pid in found:
            if (start := start_ticks_of(pid)) is not None:
                self._seen[pid] = start
        return [pid for pid, start in self._seen.copy().items() if start_ticks_of(pid) == start]

    def _watch(self) -> None:
        """See all processes of the run while it goes on."""
        while self.run.process.poll() is None:
            self._processes()
            time.sleep(LOOK_S)

    def _note_broker(self) -> None:
        """Note where the broker's socket is, as long as that can be known."""
        path = RunDirectory(self.run.folder).broker_path
        while self._site is None and self.run.process.poll() is None and self._broker_folder is None:
            with suppress(OSError):
                self._broker_folder = Path(urlsplit(path.read_text()).path).parent
            time.sleep(0.01)

    def _visit(self) -> None:
        """Have the dashboard started, which comes with its first visitor."""
        with suppress(OSError, AssertionError):
            urlopen(self.run.dashboard_url(), timeout=PATIENCE_S).close()

    def _assert_nobody_is_left(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while (left := self._processes()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not left, [command_line(pid) for pid in left]

    def _assert_nothing_is_lost(self) -> None:
        """Each call is there once; over SST an agent that dies may miss the end, and says so."""
        calls = [stream.calls for stream in self.run.health]
        is_reported = "Lost: " in self.run.output or "nothing of it is kept" in self.run.output
        if self._transport == "files" or not is_reported:
            assert sum(calls) == WORK + 2, (calls, self.run.output)
        assert sum(calls) <= WORK + 2, (calls, self.run.output)
        assert_all_stored_once(self.run)
        assert_all_counted_once(self.run)

    def _deliver(self) -> None:
        """Bring what is left of a run whose launcher was killed, and see that nothing is doubled."""
        folder = str(self.run.folder)
        words = [sys.executable, "-m", "chimbuko", "runs", "deliver", folder]
        environment = os.environ | {"TMPDIR": str(self._temporary)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert sum(stream.calls for stream in self.run.health_so_far) <= WORK + 2

    def _assert_nothing_is_left(self) -> None:
        in_memory = [path for path in MEMORY.glob("chimbuko-*") if self.run.info.id in path.name]
        assert not in_memory, in_memory
        assert not [*self._temporary.iterdir()], [*self._temporary.iterdir()]
        assert self._broker_folder is None or not self._broker_folder.exists(), self._broker_folder


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        yield Path(name)


def main() -> None:
    """Try many runs; exit code 1 where one did not come through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--site", action="store_true", help="With a database and a broker of a site.")
    parser.add_argument("--seed", type=int, default=None, help="Seed of the first run.")
    options = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    failed = 0
    with ExitStack() as stack:
        site = None
        if options.site:
            site = Site(stack.enter_context(_folder()))
            stack.callback(site.remove)
        for seed in range(first, first + options.runs):
            failed += not _try(seed, site)
    print(f"{options.runs - failed} of {options.runs} came through")
    sys.exit(failed > 0)


def _try(seed: int, site: Site | None) -> bool:
    """Try one run, and print a line; return whether it came through."""
    chance = random.Random(seed)
    parts = PARTS if site is None else (*SITES_PARTS, *(part for part in PARTS if part != BROKER))
    transport, strikes = chance.choice(("files", "sst")), strikes_of(chance, parts)
    result = "ok"
    with _folder() as folder:
        try:
            Chaos(folder, transport, strikes, site).check()
        except AssertionError as error:
            result = f"FAILED\n{error}"
    print(f"{seed} {transport}: {', '.join(map(str, strikes))}: {result}", flush=True)
    return result == "ok"


if __name__ == "__main__":
    main()
