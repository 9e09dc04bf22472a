"""Checks of a machine, of its node's settings and of its recorders, each of which tries out the real thing
and says what to do where it does not work.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from chimbuko.capture.follow.space import MEMORY, choose_folder
from chimbuko.capture.trace.discovery import SST, STREAM_PREFIX
from chimbuko.capture.trace.isolated import apart
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.shield import ADVICE, WHAT, shield_environment, shield_problems, shield_states
from chimbuko.capture.trace.tausettings import SAFE_SST_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import ChimbukoError, ConfigError, TraceFormatError
from chimbuko.core.kernels.library import find, is_prepared
from chimbuko.core.traceschema import StreamNames
from chimbuko.instrument.recorder.library import WHAT as LIBRARY
from chimbuko.instrument.recorder.library import recorder_library
from chimbuko.instrument.recorder.mpi import mpi_of
from chimbuko.launcher.kernels import await_kernels
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.report.cores import FOREIGN_SHARE
from chimbuko.monitor.report.limits import memory_low
from chimbuko.monitor.report.profile import (
    load,
    node_differences,
    profile_of,
    setting_differences,
    settings_in,
)
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.sampler import Sampler
from chimbuko.monitor.sampling.span import Span
from chimbuko.provenance.store.engine import ping
from chimbuko.runtime.preload import compile_with, find_compiler
from chimbuko.runtime.process.signals import no_ctrl_c
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.brokerplace import LOOPBACK, address_of
from chimbuko.runtime.runs.scratch import is_on_network

# Check of the cores, memory and settings of a node for ``chimbuko doctor``, as the monitor measures them.


class Finding(msgspec.Struct, frozen=True):
    """Result of one check."""

    about: str
    state: str
    """``ok``, ``warning`` (it works, but) or ``problem``."""
    text: str
    advice: str = ""
    """Advice on what to do; empty if nothing is."""


LOOK_S = 0.5


def check_node(baseline: Path | None) -> list[Finding]:
    """Check a node before a job starts; return what was found.

    Parameters
    ----------
    baseline
        Folder of the tables of a good run, to compare with.

    Raises
    ------
    ConfigError
        There is no profile in that folder.
    """
    sampler = Sampler()
    earlier = sampler.sample([os.getpid()])
    time.sleep(LOOK_S)
    span = difference(earlier, sampler.sample([os.getpid()]))
    sampler.close()
    found = list(_load(span))
    if baseline is not None:
        found += _compared(baseline, span)
    return found


def _load(span: Span) -> Iterator[Finding]:
    allowed = os.sched_getaffinity(0)
    busy = [
        cpu for cpu, core in span.cores.items() if cpu in allowed and core.share(core.busy_s) > FOREIGN_SHARE
    ]
    if busy:
        yield Finding(
            "cores",
            "warning",
            f"{len(busy)} of {len(allowed)} ({format_cpulist(busy)}) are busy before the job starts",
            "look for what runs there (top), or ask for nodes of your own",
        )
    else:
        yield Finding("cores", "ok", f"{len(allowed)} ({format_cpulist(allowed)}), idle")
    for low in memory_low(span):
        yield Finding("memory", "warning", low.text, low.advice)


def _compared(folder: Path, span: Span) -> list[Finding]:
    node = socket.gethostname()
    good = load(folder, node)
    pairs = list(node_differences(good, profile_of(span, {}, node)))
    if good.processes:
        pairs += setting_differences(good.processes[0].variables, settings_in(os.environ))
    if not pairs:
        return [Finding("good run", "ok", f"this node is as in {folder}")]
    return [Finding("good run", "warning", text, advice) for text, advice in pairs]


RECORDER = "recorder"
OTHER_RECORDERS = "or record with TAU, or a Python program with 'chimbuko trace'"
ENDED_S = 20.0
LOOK_PERIOD_S = 0.05
_BECOME = """
import os, pathlib, sys
from chimbuko.instrument.recorder.launch import become
from chimbuko.instrument.recorder.library import NativeProgram
become(NativeProgram(pathlib.Path(sys.argv[1]), "", is_elf=True), sys.argv[1:], os.environ)
"""
_SOURCE = """
__attribute__((noinline)) int work(int number);
int work(int number) { return number + 1; }
int main(void) { return work(-1); }
"""
_MPI_SOURCE = """
#include <mpi.h>
int main(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); return MPI_Finalize(); }
"""


def check_recorder() -> Finding:
    """Build the library for the MPI on the PATH, if there is one, and record a small program with it."""
    environment = dict(os.environ)
    mpicc = shutil.which("mpicc")
    with TemporaryDirectory(prefix="chimbuko-doctor-") as name:
        folder = Path(name)
        try:
            compiler = [mpicc] if mpicc else find_compiler(environment, LIBRARY)
            program = folder / "program"
            source = folder / "program.c"
            source.write_text(_MPI_SOURCE if mpicc else _SOURCE)
            words = [*compiler, "-finstrument-functions", str(source), "-o", str(program)]
            compile_with(words, environment, "a program", "set PATH or CC")
            mpi = mpi_of(program, environment)
            recorder_library(mpi, environment)
            recorded = _is_recorded(program, folder, environment)
        except (ConfigError, OSError, subprocess.SubprocessError) as error:
            return Finding(
                RECORDER, "warning", f"programs run, and are not recorded: {error}", OTHER_RECORDERS
            )
    built = f"built by {compiler[0]} for " + ("programs without MPI" if mpi is None else f"{mpi.path}")
    if not recorded:
        return Finding(
            RECORDER, "warning", f"{built}; a program that it recorded left no stream", OTHER_RECORDERS
        )
    more = "; there is no mpicc on the PATH, so MPI programs are not recorded" if mpi is None else ""
    return Finding(RECORDER, "ok", f"{built}, and a program was recorded with it{more}")


def _is_recorded(program: Path, folder: Path, environment: Mapping[str, str]) -> bool:
    streams = folder / "streams"
    streams.mkdir()
    own = {**environment, "TAU_ADIOS2_FILENAME": str(streams / STREAM_PREFIX), "TAU_ADIOS2_ENGINE": "BP4"}
    own.pop("TAU_ADIOS2_CONFIG_FILE", None)
    words = [sys.executable, "-P", "-c", _BECOME, str(program)]
    subprocess.run(words, env=own, timeout=ENDED_S, capture_output=True, check=True)
    latest = time.monotonic() + ENDED_S
    while time.monotonic() < latest:
        if any((found / "md.idx").exists() for found in streams.glob("*.bp")):
            return True
        time.sleep(LOOK_PERIOD_S)
    return False


ABOUT = "sst shield"
STREAM_TIMEOUT_S = 30.0


def check_shield() -> Finding:
    """Build it, and stream with it by the ADIOS2 of this Python."""
    with TemporaryDirectory() as folder:
        try:
            compiler = find_compiler(os.environ, WHAT)[0]
            environment = shield_environment(Path(folder), os.environ)
        except ConfigError as error:
            return Finding(ABOUT, "warning", str(error), f"or {ADVICE}")
        write = f"from {__name__} import write_stream; write_stream({folder!r})"
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", write],
                env=environment,
                capture_output=True,
                timeout=STREAM_TIMEOUT_S,
            )
            ended = "" if done.returncode == 0 else f"ends with {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"takes more than {STREAM_TIMEOUT_S:.0f} s"
        if ended:
            return Finding(ABOUT, "warning", f"a writer that loads it {ended}", ADVICE)
        if not shield_states(Path(folder))["active"]:
            text, _, advice = shield_problems(Path(folder), streams=1)[0].partition("; ")
            return Finding(ABOUT, "warning", f"built by {compiler}; {text}", advice)
    version = importlib.metadata.version("adios2")
    return Finding(
        ABOUT, "ok", f"built by {compiler}, and was tried with the ADIOS2 of this Python ({version})"
    )


def write_stream(folder: str) -> None:
    """Write a stream of one step that nobody reads."""
    names = StreamNames(timers={0: "main"}, event_types={0: "ENTRY", 1: "EXIT"})
    events = np.array([[0, 0, 0, 0, 0, 1]], np.uint64)
    path = Path(folder) / "tau-metrics-doctor-0.bp"
    with StreamWriter(path, SST, SAFE_SST_PARAMETERS) as writer:
        writer.write_step(events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), names)


STEPS = 3
SLOW_JOIN_S = 2.0
"""Time to join a stream that is slow, in seconds. It usually takes 0.4 s; what takes longer is most likely
the look-up of names.
"""
SPOOL_BYTES = 64 << 20
"""Largest spool of a rank, in bytes; this much is asked for per core."""
LEAST_MEMORY_BYTES = 1 << 30
SLOW_ANSWER_S = 0.005
PLUGIN = "libTAU-adios2-trace-plugin.so"


def check_up(
    run_folder: Path, scratch: Path, bind: str, broker: str | None, store: str | None
) -> list[Finding]:
    """Find out all that can be known of this machine before a run, in a few seconds."""
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("ADIOS2", check_streaming),
        ("sst shield", check_shield),
        ("recorder", check_recorder),
        ("TAU", check_tau),
        ("run folder", lambda: check_folder("run folder", run_folder, is_scratch=False)),
        ("scratch", lambda: check_folder("scratch", scratch, is_scratch=True)),
        ("node-local memory", lambda: check_followed(scratch)),
        ("machine", check_machine),
        ("kernels", check_kernels),
        ("network", lambda: check_network(bind)),
        ("own broker", check_own_broker),
    ]
    if broker:
        checks.append(("broker", lambda: check_broker(broker)))
    if store:
        checks.append(("store", lambda: check_store(store)))
    return [_checked(about, check) for about, check in checks]


def _checked(about: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (ChimbukoError, OSError, ImportError) as error:
        return Finding(about, "problem", str(error))


def check_streaming() -> Finding:
    """Stream over SST from one process to another."""
    version = importlib.metadata.version("adios2")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tau-metrics-doctor-0.bp"
        writer = get_context("spawn").Process(target=_write_stream, args=(path,), daemon=True)
        with no_ctrl_c():
            writer.start()
        try:
            (joined_s,) = apart(_join_stream, [path])
        finally:
            writer.kill()
            writer.join()
    if isinstance(joined_s, TraceFormatError):
        advice = "ask for the package adios2 from PyPI, and whether processes may connect to this host"
        return Finding("ADIOS2", "problem", f"{version}: no stream over SST ({joined_s})", advice)
    text = f"{version}, streams over SST; a reader joins in {joined_s:.2f} s"
    if joined_s > SLOW_JOIN_S:
        advice = "put name and addresses of this host into /etc/hosts: ADIOS2 looks them up"
        return Finding("ADIOS2", "warning", text, advice)
    return Finding("ADIOS2", "ok", text)


def _write_stream(path: Path) -> None:
    """Write a stream that waits for its reader."""
    names = StreamNames(timers={0: "main"}, event_types={0: "ENTRY", 1: "EXIT"})
    with StreamWriter(path, SST, {"RendezvousReaderCount": "1"}) as writer:
        for step in range(STEPS):
            events = np.array([[0, 0, 0, 0, 0, step + 1]], np.uint64)
            writer.write_step(events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), names)


def _join_stream(path: Path) -> float:
    """Join a stream, and return the seconds until its first step is there."""
    contact = path.with_name(path.name + ".sst")
    while not contact.exists():
        time.sleep(0.01)
    began_s = time.monotonic()
    with StreamReader(path, SST, open_timeout_s=30.0) as reader:
        reader.next_step()
        joined_s = time.monotonic() - began_s
        for _ in range(STEPS):
            reader.next_step()
    return joined_s


def check_tau() -> Finding:
    """Check TAU as its command is found; its plugin for traces shows whether it was built with ADIOS2."""
    found = shutil.which("tau_exec")
    if found is None:
        advice = "load its module, or put its bin folder into PATH; 'chimbuko trace' needs no TAU"
        return Finding(
            "TAU", "warning", "no tau_exec: programs can be watched by 'chimbuko trace' only", advice
        )
    plugins = tau_bindings(Path(found))
    if b"adios2_trace" not in Path(found).read_bytes() or not plugins:
        advice = "configure TAU with -adios=FOLDER of ADIOS2, or take another TAU"
        return Finding("TAU", "warning", f"{found} was built without ADIOS2: it cannot stream", advice)
    return Finding(
        "TAU", "ok", f"{found} with -adios2_trace, in {', '.join(plugins)}", _bindings_advice(plugins)
    )


def tau_bindings(tau_exec: Path) -> list[str]:
    """Return the names of a TAU's bindings that can stream, such as shared-mpi-pthread-adios2."""
    folder = tau_exec.resolve().parent.parent
    return sorted(path.parent.name for path in folder.glob(f"lib/*/{PLUGIN}"))


def is_for_mpi(binding: str) -> bool:
    """Return whether ``-T mpi`` may choose a binding."""
    return "mpi" in binding.split("-")


def _bindings_advice(bindings: list[str]) -> str:
    """Say for which programs a TAU can be used."""
    with_mpi = [binding for binding in bindings if is_for_mpi(binding)]
    if not with_mpi:
        return "for programs without MPI (-T serial,pthread); one with MPI needs a TAU configured with -mpi"
    if len(with_mpi) == len(bindings):
        return (
            "for programs with MPI (-T mpi,pthread); one without MPI leaves no stream under it, and needs "
            "a TAU configured without -mpi, or 'chimbuko trace' if it is in Python"
        )
    return (
        "use -T mpi,pthread for programs with MPI, and -T serial,pthread for others: else no stream appears"
    )


def check_folder(about: str, folder: Path, is_scratch: bool) -> Finding:
    """Check whether a database can be in a folder, and how much room there is."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    wanted = len(os.sched_getaffinity(0)) * SPOOL_BYTES
    text = f"{place}, {free / 1e9:.1f} GB free"
    if not os.access(place, os.W_OK):
        return Finding(about, "problem", f"{place} cannot be written", "choose another folder")
    if free < wanted:
        return Finding(about, "warning", text, f"make room: {wanted / 1e9:.1f} GB may be needed at worst")
    if is_on_network(place):
        if is_scratch:
            advice = "set TMPDIR to a folder on the node's own storage"
            return Finding(about, "warning", f"{text}, on a network file system", advice)
        return Finding(about, "ok", f"{text}, on a network file system: the store gets there at the end")
    if not _has_log(place):
        advice = "choose a folder on a local disk"
        return Finding(about, "problem", f"{text}; SQLite's write-ahead log does not work there", advice)
    return Finding(about, "ok", f"{text}; SQLite's write-ahead log works")


def _has_log(place: Path) -> bool:
    """Return whether one connection reads what another has written, with the log between them."""
    with TemporaryDirectory(dir=place, prefix=".chimbuko-doctor-") as folder:
        path = Path(folder) / "try.sqlite"
        try:
            with closing(sqlite3.connect(path)) as writer, closing(sqlite3.connect(path)) as reader:
                (mode,) = writer.execute("PRAGMA journal_mode=WAL").fetchone()
                writer.execute("CREATE TABLE tried (number)")
                writer.execute("INSERT INTO tried VALUES (7)")
                writer.commit()
                return bool(mode == "wal" and reader.execute("SELECT * FROM tried").fetchone() == (7,))
        except sqlite3.Error:
            return False


def check_followed(scratch: Path) -> Finding:
    """Say where followed files would go, and how much of the application's memory they could take."""
    choice = choose_folder([MEMORY, scratch])
    because = "; ".join(choice.refusals)
    if choice.folder is None:
        advice = "take --trace-dir with a folder on a local disk, or --transport sst"
        return Finding("node-local memory", "warning", f"no place for followed files ({because})", advice)
    what = "memory" if choice.is_memory else "disk"
    text = f"followed files go to {choice.folder}, {choice.left_bytes / 1e9:.1f} GB of {what} are left"
    return Finding("node-local memory", "ok", f"{text} ({because})" if because else text)


def check_machine() -> Finding:
    """Say which cores and how much memory this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    memory = int(fields["MemAvailable"].split()[0]) * 1024
    text = f"{len(cores)} cores of {os.cpu_count()}, {memory / 1e9:.1f} GB of memory available"
    if len(cores) == 1:
        advice = "give the job a core more than the program needs, and its number to the agent (--cores)"
        return Finding("machine", "warning", f"{text}: agent and program share a core", advice)
    if memory < LEAST_MEMORY_BYTES:
        return Finding("machine", "warning", text, "an agent needs 0.1 GB, and 12 MB per rank")
    return Finding("machine", "ok", text)


def check_kernels() -> Finding:
    """Say whether all kernels are compiled for this CPU; afterwards they are."""
    began_s = time.monotonic()
    were_compiled = is_prepared()
    await_kernels()
    library = find()
    if library is None:
        advice = "install a C compiler and Python's headers, and call 'chimbuko warmup'"
        return Finding("kernels", "warning", "numba compiled them, which makes each start 1 s longer", advice)
    if not were_compiled:
        text = f"they were not compiled for this CPU; that took {time.monotonic() - began_s:.0f} s"
        return Finding("kernels", "warning", text, "run 'chimbuko warmup' once on each kind of node")
    return Finding("kernels", "ok", f"all are compiled for this CPU, in {library.parent}")


def check_network(bind: str) -> Finding:
    """Check whether a port can be had where services listen."""
    address = address_of(bind)
    for place in {LOOPBACK, address}:
        with socket.socket() as probe:
            try:
                probe.bind((place, 0))
            except OSError as error:
                advice = "name an interface or address of this host"
                return Finding("network", "problem", f"no port on {place} ({error.strerror})", advice)
    if address.startswith("127.") and bind != LOOPBACK:
        advice = "name the network interface instead, as in --bind ib0"
        return Finding("network", "warning", f"{bind} is {address}, which other nodes cannot reach", advice)
    return Finding("network", "ok", f"ports can be had on {address}")


def check_own_broker() -> Finding:
    """Check whether the broker that comes along runs here."""
    began_s = time.monotonic()
    with TemporaryDirectory() as folder, PrivateBroker(Path(folder) / "broker.log"):
        took_s = time.monotonic() - began_s
    return Finding("own broker", "ok", f"Valkey starts, in {took_s:.2f} s")


def check_broker(url: str) -> Finding:
    """Check whether a given broker answers, and how fast."""
    with closing(connect(url)) as client:
        began_s = time.monotonic()
        client.ping()
        took_s = time.monotonic() - began_s
    text = f"answers in {1000 * took_s:.1f} ms"
    if took_s > SLOW_ANSWER_S:
        return Finding("broker", "warning", text, "choose one nearer to the nodes")
    return Finding("broker", "ok", text)


def check_store(url: str) -> Finding:
    """Check whether a given database answers. Its tables are left as they are."""
    return Finding("store", "ok", f"{ping(url)} answers")
