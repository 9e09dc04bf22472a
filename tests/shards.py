"""A plugin of pytest: files of tests run side by side, in forks of the process that collected all of them.

    python -m pytest -p tests.shards --processes 6 …

To import and collect all tests takes 25 s of CPU time, which is spent once. Each process takes the next file
from a queue when it comes to the last test of one, so files begin in the order in which they were collected.

A test that failed runs once more after all others, alone and in a process of its own. What passes then is
listed as flaky in the last lines, and is no failure as long as there are at most ``MOST_FLAKY`` of them. A
test that ended its process is a failure, and does not run again.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
from coverage import Coverage

MOST_FLAKY = 2
MOST_AGAIN = 5
"""Number of failures above which no test runs again: so many are not by chance, and each may take minutes."""

_NUMBER = struct.Struct("i")

_flaky: list[pytest.TestReport] = []
"""First failures of the tests that passed when they ran once more."""


class Hooks:
    """Hooks that this plugin calls."""

    def pytest_shard_finished(self, output: dict[str, Any]) -> None:
        """Take what a process has left in ``config.workeroutput`` when it had run its last test."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that other plugins may have."""
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of processes; without it tests run as pytest runs them."""
    parser.addoption("--processes", type=int, default=0, help="number of files of tests that run at a time")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks, and those that failed once more; None leaves the session to pytest."""
    processes = session.config.option.processes
    if not processes or session.config.option.collectonly or session.testsfailed:
        return None
    numbers = range(len(session.items))
    files = [list(file) for _, file in groupby(numbers, key=lambda number: session.items[number].path)]
    failed: dict[int, list[pytest.TestReport]] = {}
    for number, reports in _results(session, files, processes):
        if not _has_failed(reports) or hasattr(reports[-1], "ended"):
            _tell(session, number, reports)
        else:
            session.config.get_terminal_writer().write("f", red=True, flush=True)
            failed[number] = reports
    again = dict(_again(session, list(failed))) if len(failed) <= MOST_AGAIN else {}
    passed = [number for number, reports in again.items() if not _has_failed(reports)]
    _flaky.extend(next(report for report in failed[number] if report.failed) for number in passed)
    if len(passed) <= MOST_FLAKY:
        failed |= {number: again[number] for number in passed}
    for number, reports in failed.items():
        _tell(session, number, reports)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Show how flaky tests have failed, and list them at the very end.

    Where they are too many they are shown among the failures.
    """
    for report in _flaky if len(_flaky) <= MOST_FLAKY else ():
        terminalreporter.section(f"flaky: {report.nodeid} ({report.when})")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.section(title, "-")
            terminalreporter.write_line(text)
    yield
    for report in _flaky:
        terminalreporter.write_line(f"flaky: {report.nodeid}", yellow=True)
    if len(_flaky) > MOST_FLAKY:
        terminalreporter.write_line(f"{len(_flaky)} tests are flaky, at most {MOST_FLAKY} may be", red=True)


def _again(session: pytest.Session, numbers: list[int]) -> Iterator[tuple[int, list[pytest.TestReport]]]:
    terminal = session.config.get_terminal_writer()
    for number in numbers:
        terminal.line()
        terminal.write(f"failed, runs once more: {session.items[number].nodeid} ")
        yield from _results(session, [[number]], 1)
    terminal.line()


def _has_failed(reports: list[pytest.TestReport]) -> bool:
    return any(report.failed for report in reports)


def _tell(session: pytest.Session, number: int, reports: list[pytest.TestReport]) -> None:
    item = session.items[number]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _results(
    session: pytest.Session, files: list[list[int]], processes: int
) -> Iterator[tuple[int, list[pytest.TestReport]]]:
    """Reports of each test, by its number, as tests end.

    What is left of the files of processes that died is run by new ones.
    """
    while files:
        done = set()
        for number, reports in _round(session, files, processes):
            done.add(number)
            yield number, reports
        if not done:
            raise RuntimeError("processes of tests have ended before they ran any")
        left = ([number for number in file if number not in done] for file in files)
        files = [file for file in left if file]


def _round(
    session: pytest.Session, files: list[list[int]], processes: int
) -> Iterator[tuple[int, list[pytest.TestReport]]]:
    taking, giving = os.pipe()
    os.set_blocking(giving, False)
    os.write(giving, b"".join(map(_NUMBER.pack, range(len(files)))))
    os.close(giving)
    workers: list[_Worker] = []
    try:
        for _ in range(min(processes, len(files))):
            workers.append(_started(session, files, taking, [worker.connection for worker in workers]))
        while workers:
            ready = wait([place for worker in workers for place in (worker.connection, worker.ended)])
            for worker in [one for one in workers if one.connection in ready or one.ended in ready]:
                yield from worker.heard(session)
                if worker.ended in ready:
                    workers.remove(worker)
                    yield from worker.end(session)
    finally:
        os.close(taking)
        # Where this process was interrupted: they end when they find nobody to report to.
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            os.waitpid(worker.pid, 0)


@dataclass
class _Worker:
    """A process that runs tests, for the one that has started it."""

    pid: int
    connection: Connection
    ended: int
    """File descriptor that is ready at its end: a child that a test has left may keep the connection open."""
    running: int | None = None
    is_finished: bool = False
    reports: list[pytest.TestReport] = field(default_factory=list)

    def heard(self, session: pytest.Session) -> Iterator[tuple[int, list[pytest.TestReport]]]:
        """Take what it has sent; gives the tests that have ended."""
        hook = session.config.hook
        while self.connection.poll():
            try:
                kind, content = self.connection.recv()
            except (EOFError, OSError):
                return
            if kind == "begun":
                self.running, self.reports = content, []
            elif kind == "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=content)
                self.reports.append(report)
            elif kind == "ended":
                self.running = None
                yield content, self.reports
            else:
                self.is_finished = True
                hook.pytest_shard_finished(output=content)

    def end(self, session: pytest.Session) -> Iterator[tuple[int, list[pytest.TestReport]]]:
        """Make sure that it has ended in order; gives the test that has ended it."""
        os.close(self.ended)
        self.connection.close()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        if self.running is not None:
            report = _report_of_end(session.items[self.running], f"its process has ended {how}")
            yield self.running, [*self.reports, report]
        elif not self.is_finished:
            raise RuntimeError(f"a process of tests has ended {how} between two tests")


def _report_of_end(item: pytest.Item, text: str) -> pytest.TestReport:
    keywords = dict.fromkeys(item.keywords, 1)
    return pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, "call", ended=True)


def _started(
    session: pytest.Session, files: list[list[int]], taking: int, others: list[Connection]
) -> _Worker:
    ours, theirs = Pipe()
    # What is written already must not be written twice.
    for stream in (sys.stdout, sys.stderr, session.config.get_terminal_writer()):
        stream.flush()
    base = session.config._tmp_path_factory.mktemp("w", numbered=True)  # type: ignore[attr-defined]
    pid = os.fork()
    if pid:
        theirs.close()
        return _Worker(pid, ours, os.pidfd_open(pid))
    code = 1
    try:
        for connection in (ours, *others):
            connection.close()
        session.config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
        _work(session, _taken(files, taking), theirs)
        code = 0
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # What this process has of its parent's is not its own to end.
        os._exit(code)
    raise AssertionError


def _taken(files: list[list[int]], taking: int) -> Iterator[int]:
    """Give the tests that this process runs; a file is taken from the queue when it is asked for."""
    while record := os.read(taking, _NUMBER.size):
        yield from files[_NUMBER.unpack(record)[0]]


def _work(session: pytest.Session, numbers: Iterator[int], connection: Connection) -> None:
    config = session.config
    config.workerinput, config.workeroutput = {}, {}  # type: ignore[attr-defined]
    _leave_terminal(config)
    config.pluginmanager.register(_Sender(config, connection.send))
    try:
        for number, following in pairwise(chain(numbers, (None,))):
            connection.send(("begun", number))
            after = None if following is None else session.items[following]
            config.hook.pytest_runtest_protocol(item=session.items[number], nextitem=after)
            connection.send(("ended", number))
    finally:
        config.hook.pytest_sessionfinish(session=session, exitstatus=pytest.ExitCode.OK)
        if (measured := Coverage.current()) is not None:
            measured.stop()
            measured.save()
    connection.send(("finished", config.workeroutput))  # type: ignore[attr-defined]


def _leave_terminal(config: pytest.Config) -> None:
    """Leave the terminal and what was captured to the parent; a writer stays, for the stacks of a timeout."""
    writer = config.get_terminal_writer()
    for name in ("terminalreporter", "terminalprogress"):
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
    config.pluginmanager.register(_Terminal(writer), "terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


class _Terminal:
    """All of a terminal reporter that pytest asks for where nothing is reported."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


class _Sender:
    """A plugin that sends reports to the parent."""

    def __init__(self, config: pytest.Config, send: Callable[[tuple[str, Any]], None]) -> None:
        self._config = config
        self._send = send

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        hook = self._config.hook
        self._send(("report", hook.pytest_report_to_serializable(config=self._config, report=report)))
