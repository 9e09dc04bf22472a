"""Leads the analysis of a recorded trace in one process, from its start to its summary."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader

import msgspec

from chimbuko.capture.trace.discovery import StreamName
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import unnamed_file, write_atomically
from chimbuko.launcher.closing import Show, close_run
from chimbuko.launcher.offline.spec import UNDELIVERED_CODE, OfflineNews, OfflineSpec, RecordedStreamSpec
from chimbuko.launcher.outcome.progress import Progress
from chimbuko.launcher.outcome.recovery import note_failed_start
from chimbuko.launcher.outcome.summary import Result
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.storeplace import StorePlace
from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from chimbuko.runtime.process.failures import Failures, words_of
from chimbuko.runtime.process.lifetime import Sacrifice
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.starting import fork
from chimbuko.runtime.process.wakeup import Wakeup
from chimbuko.runtime.runs.directory import RunDirectory, claim_name
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE
from chimbuko.runtime.runs.scratch import ScratchNote, agents_part, note_run, scratch_folder

INTERRUPTED_CODE = 130
LOOK_S = 0.5
"""Seconds between two looks, where nothing happens."""
SIGN_PERIOD_S = 10.0
"""Seconds between two signs of life in the run's folder."""
HUNG_S = 120.0
"""Seconds without a word after which the process hangs, as ADIOS2 may in a damaged file."""
FULL_DISK_BYTES = 1 << 18
MOST_NEWS_BYTES = 1 << 16


class Unfinished(Exception):
    """The analysis in one process came to no end; the message says why."""


class RecordedTrace(msgspec.Struct, frozen=True):
    """A recorded trace to analyse."""

    streams: Sequence[StreamName]
    node: str
    workers: int
    """Number of processes that read the streams; 1 for none beside the one that does all."""


class TraceController:
    """Starts the process that analyses a recorded trace, waits for its end, and shows what was found.

    Parameters
    ----------
    problems
        One line each, for what was wrong from the start.
    """

    def __init__(
        self, run: RunDirectory, services: ServiceOptions, trace: RecordedTrace, problems: list[str]
    ) -> None:
        self._run = run
        self._services = services
        self._trace = trace
        self._problems = problems
        self._failures = Failures(problems)
        self._interrupts = 0
        self._news: list[StreamHealth] = []
        self._is_read = False
        self._unread = b""
        self._sign_at_s = 0.0

    def lead(self, is_relabelling: bool, show: Show) -> int:
        """Lead the run to its end; return the exit code, 130 where it was interrupted.

        Raises
        ------
        Unfinished
            The process died. What it has stored does no harm where all is analysed once more.
        ChimbukoError
            The analysis cannot begin.
        """
        heed(FROM_OTHERS, self._on_interrupt)
        has_begun = False
        try:
            with hold(claim_name(self._run.read_info().id)), Wakeup() as wakeup:
                place = StorePlace(self._run)
                self._problems += place.open()
                process = self._start(place, is_relabelling)
                try:
                    process.wait_ready()
                    has_begun = True
                    code = self._watch(process, wakeup)
                finally:
                    process.stop(0.0)
                self._settle(place)
                result = self._close(place, is_relabelling, is_judged=code == 0)
                place.clear()
                show(result)
        except (OSError, MemoryError) as error:
            raise ServiceError(f"the analysis cannot be done: {words_of(error)}") from error
        finally:
            for path in (self._run.alive_path, self._run.interrupted_path):
                path.unlink(missing_ok=True)
            if not has_begun:
                note_failed_start(self._run)
        return (INTERRUPTED_CODE if self._interrupts else code) or result.store_code

    def _start(self, place: StorePlace, is_relabelling: bool) -> Service:
        services, trace = self._services, self._trace
        numbers = {program: number for number, program in enumerate(services.programs)}
        with suppress(OSError):
            # The list of runs has them, as the command says nothing but where the trace is.
            write_atomically(self._run.programs_path, msgspec.json.encode(numbers))
        scratch = scratch_folder(place.info.id, agents_part(trace.node))
        note_run(scratch, self._run)
        ScratchNote(self._run, agents_part(trace.node), scratch).write()
        spec = OfflineSpec(
            run=str(self._run.path),
            config=services.config,
            node=trace.node,
            programs=list(services.programs),
            streams=[
                RecordedStreamSpec(str(one.path.absolute()), numbers[one.program], one.rank, one.first_rank)
                for one in trace.streams
            ],
            has_own_store=place.has_own_store,
            scratch=str(scratch),
            load_model=None if services.load_model is None else str(services.load_model),
            save_models=[str(path) for path in (self._run.model_path, services.save_model) if path],
            workers=trace.workers,
            is_relabelling=is_relabelling,
        )
        # In memory: $TMPDIR may be full.
        file = unnamed_file("offline")
        os.write(file, msgspec.json.encode(spec))
        service = Service(
            "analysis",
            "chimbuko.launcher.offline",
            [f"/proc/self/fd/{file}"],
            {STORE_VARIABLE: place.url},
            self._run.logs,
            inherited=(file,),
            sacrifice=Sacrifice.READER,
            start=fork,
        )
        os.close(file)
        return service

    def _watch(self, process: Service, wakeup: Wakeup) -> int:
        """Wait for the end of the process; return the exit code of the run, 0 where all is stored."""
        output = process.process.stdout
        assert isinstance(output, BufferedReader), "the process has a pipe for its output"
        os.set_blocking(output.fileno(), False)
        heard_s, is_asked = time.monotonic(), False
        with Progress(self._take_news) as progress:
            while True:
                is_running = process.is_running
                if self._listen(output, progress):
                    heard_s = time.monotonic()
                if not is_running:
                    break
                progress.show()
                self._give_sign()
                if self._interrupts and not is_asked:
                    is_asked = True
                    process.ask_to_stop()
                    with suppress(OSError):
                        self._run.interrupted_path.touch(mode=0o600)
                if time.monotonic() - heard_s > HUNG_S and not self._is_read:
                    process.process.send_signal(signal.SIGKILL)
                wakeup.wait(LOOK_S)
        code = process.process.returncode
        if code not in (0, UNDELIVERED_CODE):
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            line = f"the analysis in one process {how} (its log is {process.log})"
            if not self._interrupts:
                raise Unfinished(line)
            self._problems.append(line)
        return ServiceError.exit_code if code else 0

    def _listen(self, output: BufferedReader, progress: Progress) -> bool:
        """Take what the process says; return whether there was anything."""
        received = b""
        # Behind the first line others may be in its buffer.
        while part := output.read1(MOST_NEWS_BYTES):
            received += part
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            news = msgspec.json.decode(line, type=OfflineNews)
            self._news += news.health
            self._is_read |= news.is_read
            if news.line:
                self._problems.append(news.line)
                progress.say(news.line)
            if news.said:
                progress.say(news.said)
        return bool(received)

    def _take_news(self) -> Sequence[StreamHealth] | None:
        news, self._news = self._news, []
        return news or None

    def _give_sign(self) -> None:
        if time.monotonic() >= self._sign_at_s:
            self._sign_at_s = time.monotonic() + SIGN_PERIOD_S
            with suppress(OSError):
                self._run.alive_path.touch(mode=0o600)

    def _settle(self, place: StorePlace) -> None:
        """See what became of the findings, and bring the store to where it belongs."""
        run = self._run
        part = agents_part(self._trace.node)
        scratch = scratch_folder(place.info.id, part)
        if (scratch / "agent-0").is_dir():
            words = shlex.join(["chimbuko", "runs", "deliver", str(run.path), str(scratch)])
            self._problems.append(
                f"what could not be delivered is kept on {self._trace.node}; store it there with: {words}"
            )
        else:
            shutil.rmtree(scratch, ignore_errors=True)
            ScratchNote(run, part, scratch).remove()
        with self._failures.survived(f"{run.path}: cannot be looked into any more"):
            if shutil.disk_usage(run.path).free < FULL_DISK_BYTES:
                self._problems.append(f"the disk of {run.path} is full: make room there")
        if place.is_elsewhere:
            with self._failures.survived(f"what was found is still in {place.scratch}"):
                place.bring_home()

    def _close(self, place: StorePlace, is_relabelling: bool, is_judged: bool) -> Result:
        asked = self._interrupts
        return close_run(
            self._run,
            place,
            self._problems,
            INTERRUPTED if asked else "finished",
            None,
            is_relabelling,
            is_hasty=lambda: self._interrupts > asked,
            is_judged=is_judged,
        )

    def _on_interrupt(self, number: int, frame: object) -> None:
        """Note that the run is to end."""
        self._interrupts += 1
