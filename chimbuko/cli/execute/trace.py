"""``chimbuko trace``: run a program with its functions and messages recorded."""

from __future__ import annotations

import atexit
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

import click

import __main__
from chimbuko.cli.execute.interpreter import is_interpreter, parse_command
from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.instrument.annotations.importhook import StandIn
from chimbuko.instrument.extensions.importhook import MpiImport, watch_imports
from chimbuko.instrument.recorder.launch import become
from chimbuko.instrument.recorder.library import NativeProgram, native_program
from chimbuko.instrument.recorder.overhead import NO_OPENMP_VARIABLE, OVERHEAD_VARIABLE, parse_overhead
from chimbuko.instrument.tracer import session
from chimbuko.instrument.tracer.processmetadata import program_name
from chimbuko.plan.overheadswitch import become_plainly, is_plain
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.ranks import RANK_VARIABLES, rank_from
from chimbuko.runtime.process.usercommand import CommandError, check_command

MPI_WRITERS = "chimbuko.instrument.extensions.writerserver"
"""Module that starts writers of streams which join the recorder's rows of MPI with those of Python."""
Compile = Callable[..., Any]
"""Function with the parameters of ``compile``."""


@click.command(
    "trace",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a program with its functions and messages recorded.",
)
@click.option("--rank", type=click.IntRange(min=0), help="Rank of this process, where no launcher sets it.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Also trace functions of installed packages or of the standard library that match, "
    "as MODULE.FUNCTION with * and ?. Repeatable.",
)
@click.option("--builtins", is_flag=True, help="Also trace functions written in C; costly.")
@click.option("--annotated-only", is_flag=True, help="Trace annotated functions and regions alone.")
@click.option(
    "--aspect",
    "aspects",
    multiple=True,
    metavar="MODULE:FUNCTION[:POINTCUT]",
    help="Annotate functions that match, with * and ?, without a change to their source, and trace "
    "annotated ones alone. The script is __main__. Repeatable.",
)
@click.option(
    "--overhead",
    metavar="PERCENT",
    help="Part of a program's time that recording its functions may cost, such as 2%, the default.",
)
@click.option("--no-openmp", is_flag=True, help="Record no regions, barriers and other constructs of OpenMP.")
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module's name, as with python -m.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    rank: int | None,
    include: tuple[str, ...],
    builtins: bool,
    annotated_only: bool,
    aspects: tuple[str, ...],
    overhead: str | None,
    no_openmp: bool,
    as_module: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run PROGRAM, a Python script or a native program, recorded in TAU's layout.

    In a Python script, the calls of its own functions and its MPI calls by mpi4py are recorded; PROGRAM may
    also be any Python of 3.11 or newer, with what it shall run. In a native program, these are MPI calls and
    messages, functions compiled with -finstrument-functions, and regions that are marked with chimbuko.h.
    Functions that are called often and are short are left out, as far as --overhead wants it.

    Annotations of PerfFlowAspect in a Python program are taken over: that package is not needed.

    Python 3.11 itself executes lines of Python up to 2.5 times slower while any profiler listens to calls;
    --aspect and --annotated-only need none, nor does Python 3.12.

    The program needs no change, keeps its output, its exit code and its signals, and writes one
    stream per process: <prefix>-<PROGRAM without .py>-<rank>.bp. TAU's variables say where and how:
    TAU_ADIOS2_FILENAME (the prefix, tau-metrics), TAU_ADIOS2_ENGINE (BPFile or SST),
    TAU_ADIOS2_PERIOD (µs between steps, 2000000), TAU_ADIOS2_SELECT_FILE (timers to leave out),
    TAU_ADIOS2_CONFIG_FILE.

    Processes that the program forks, and Python processes that it starts, are traced, too, as further
    ranks. Their streams are <prefix>.<number>-<PROGRAM without .py>-<rank>.bp, for rank number + rank.

    \b
    Examples:
      chimbuko trace solver.py --steps 100
      chimbuko trace --include 'scipy.optimize.*' solver.py
      chimbuko trace --annotated-only solver.py
      chimbuko trace --aspect 'physics.*:solve*' --aspect '__main__:Grid.step' solver.py
      chimbuko trace -m package.tool input.nc
      chimbuko trace python3.12 -u -m package.tool input.nc
      chimbuko run -- mpirun -n 4 chimbuko trace solver.py
      chimbuko run -- mpirun -n 4 chimbuko trace ./app input.nml
    """
    if is_plain(os.environ):
        native = None if as_module else _native(program)
        words = [program, *arguments]
        if native is not None:
            become_plainly(native.path, words)
        become_plainly(Path(sys.executable), [sys.executable, *(["-m"] if as_module else []), *words])
    is_python = not as_module and is_interpreter(program)
    if not as_module and not is_python and (native := _native(program)) is not None:
        if include or builtins or annotated_only or aspects:
            options = "--include, --builtins, --annotated-only and --aspect"
            raise ConfigError(f"{program} is no Python program: {options} are for these")
        environment = dict(os.environ) if rank is None else {**os.environ, RANK_VARIABLES[0]: str(rank)}
        if overhead is not None:
            environment[OVERHEAD_VARIABLE] = parse_overhead(overhead)
        if no_openmp:
            environment[NO_OPENMP_VARIABLE] = "1"
        become(native, [program, *arguments], environment)
    if no_openmp:
        os.environ[NO_OPENMP_VARIABLE] = "1"
    if overhead is not None:
        if builtins or annotated_only or aspects:
            options = "--builtins, --annotated-only and --aspect"
            raise ConfigError(f"--overhead is for recording all functions: it does not go with {options}")
        os.environ[OVERHEAD_VARIABLE] = parse_overhead(overhead)
    if (annotated_only or aspects) and (include or builtins):
        option = "--aspect" if aspects else "--annotated-only"
        raise ConfigError(f"{option} leaves nothing for --include and --builtins: leave one out")
    annotate = _annotation(aspects) if aspects else None
    with_all = not annotated_only and not aspects
    if is_python:
        if annotate is not None:
            annotate()
        _become_interpreter([program, *arguments], rank, include if with_all else None, builtins)
    if as_module:
        sys.path[0] = os.getcwd()
    elif Path(program).is_file():
        sys.path[0] = str(Path(program).absolute().parent)
    else:
        check_command(program)
        raise ConfigError(f"{program}: no such Python script")
    sys.argv = [program, *arguments]
    # Before the program registers anything, so that it comes last.
    atexit.register(_end_as_interrupted)
    session.start(program_name(program), rank, MPI_WRITERS)
    MpiImport().install()
    watch_imports()
    StandIn("chimbuko.instrument.annotations.perfflowaspect").install()
    compiled = compile if annotate is None else annotate()
    try:
        if as_module:
            package = program.partition(".")[0]
            if with_all:
                session.trace_functions((f"{package}.*", *include), builtins)
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            namespace, code = _made_main(program, compiled)
            if with_all:
                session.trace_functions(include, builtins)
            exec(code, namespace)
    except Exception as error:
        _report_as_python_would(error)
        sys.exit(1)
    except KeyboardInterrupt as error:
        # Kept from click, which would make an exit code of its own of it.
        _report_as_python_would(error)
        _interrupted.append(error)


def _become_interpreter(
    words: Sequence[str], rank: int | None, include: tuple[str, ...] | None, with_builtins: bool
) -> NoReturn:
    """Become an interpreter that records the program which it runs; if it cannot, one line says why.

    Parameters
    ----------
    words
        Its command line.
    include
        Patterns of functions to record beside those of the program; None to record no functions.

    Raises
    ------
    CommandError
        It cannot be run.
    """
    environment = dict(os.environ)
    command = parse_command(words[1:])
    if include is not None and command.package:
        include = (f"{command.package}.*", *include)
    name = program_name(command.module or command.script)
    chosen = rank_from(os.environ) if rank is None else rank
    if command.obstacle:
        log(f"under Python's option {command.obstacle} nothing is recorded; leave it out")
    else:
        try:
            session.hand_over(environment, name, chosen, command.script, MPI_WRITERS, include, with_builtins)
        except (ChimbukoError, OSError, subprocess.SubprocessError) as error:
            log(f"rank {chosen} is not traced: {error}")
    try:
        os.execvpe(words[0], list(words), environment)
    except OSError as error:
        raise CommandError(words[0], error.errno or 0) from error


def _native(program: str) -> NativeProgram | None:
    """Return a program that is no Python script, found as by a shell; but a file here comes first."""
    found = program if Path(program).is_file() else shutil.which(program)
    return None if found is None else native_program(Path(found).absolute())


def _annotation(aspects: tuple[str, ...]) -> Callable[[], Compile]:
    """Begins to annotate what is imported, and gives what compiles the program's script."""
    # Not for all: whoever imports annotations is asked where they shall be written.
    from chimbuko.instrument.annotations.importhook import install
    from chimbuko.instrument.annotations.weaving import parse_pattern

    return partial(install, [parse_pattern(text) for text in aspects])


def _made_main(script: str, compiled: Compile) -> tuple[dict[str, Any], CodeType]:
    """Return the module ``__main__``, where a script may look itself up, and the script's code to run
    in it.
    """
    path = os.path.abspath(script)
    with open(path, "rb") as file:
        code = compiled(file.read(), path, "exec", dont_inherit=True)
    namespace = __main__.__dict__
    namespace.clear()
    namespace.update(
        __name__="__main__", __file__=path, __builtins__=__builtins__, __spec__=None, __doc__=None
    )
    return namespace, code


def _report_as_python_would(error: BaseException) -> None:
    """Print the traceback, beginning in the program."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _NOT_THE_PROGRAM:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


_NOT_THE_PROGRAM = (__file__, runpy.__file__, "<frozen runpy>")
_interrupted: list[BaseException] = []


def _end_as_interrupted() -> None:
    """End by the signal of Ctrl-C, so that whoever waits for the program sees that."""
    if _interrupted:
        session.stop()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
