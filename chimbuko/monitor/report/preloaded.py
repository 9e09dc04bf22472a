"""Counts of a program's messages: by the recorder's library while it runs, or from recorded streams."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from chimbuko.capture.trace.discovery import BP_FILE, StreamName
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.errors import ConfigError, TraceFormatError
from chimbuko.core.traceschema import EventType, TraceStep
from chimbuko.instrument.recorder.launch import COUNT_VARIABLE, FOLDER_VARIABLE
from chimbuko.instrument.recorder.library import native_program, recorder_library
from chimbuko.instrument.recorder.mpi import MpiLibrary, mpi_of
from chimbuko.instrument.recorder.ringfolder import make_ring_folder, remove_ring_folder
from chimbuko.monitor.report.matrix import MessageMatrix
from chimbuko.runtime.preload import PRELOAD_VARIABLE
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.ranks import stated_rank

NO_MORE_S = 1.0
"""A recorded file that offers no further step for so long was never closed."""


def count_messages(streams: Iterable[StreamName]) -> tuple[dict[str, MessageMatrix], list[str]]:
    """Return the matrix of each program, and what could not be read."""
    found: dict[str, MessageMatrix] = {}
    complaints = []
    for stream in streams:
        matrix = found.setdefault(stream.program, MessageMatrix())
        matrix.ranks = max(matrix.ranks, stream.rank + 1)
        try:
            with StreamReader(stream.path, BP_FILE, NO_MORE_S, first_rank=stream.first_rank) as reader:
                while isinstance(step := reader.next_step(NO_MORE_S), TraceStep):
                    numbers = (reader.names.event_type_id(one) for one in (EventType.SEND, EventType.RECV))
                    matrix.add(step.comms, *numbers)
        except TraceFormatError as error:
            complaints.append(str(error))
    return found, complaints


class PreloadedCounting:
    """The counting of one command's messages: ``variables`` are for its environment; ``collect`` when it has
    ended.

    Parameters
    ----------
    command
        Its words. One of them is the program, which has to be linked with its MPI.
    folder
        For a table of each rank's messages. What earlier runs have left of these ranks there is removed.

    Raises
    ------
    ConfigError
        No word is such a program, or the library cannot be built for its MPI.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._folder = folder
        library = recorder_library(mpi_among(command, environment), environment)
        self._place = make_ring_folder(folder, is_marked=False)
        preloaded = " ".join(filter(None, [str(library), environment.get(PRELOAD_VARIABLE, "")]))
        self.variables = {
            PRELOAD_VARIABLE: preloaded,
            FOLDER_VARIABLE: str(self._place),
            COUNT_VARIABLE: "1",
        }
        # Of a monitor that is itself started for each rank: the others see to theirs.
        rank = stated_rank(environment)
        for path in folder.glob(f"messages.*.{'*' if rank is None else rank}.csv"):
            path.unlink(missing_ok=True)

    def collect(self) -> None:
        """Write the table of each rank that has been counted; what cannot be counted is logged."""
        # Loaded here since it needs NumPy, which the monitor of a program does not.
        from chimbuko.monitor.report.ranktables import collected, write_rank_table

        found, complaints = collected(self._place)
        for complaint in complaints:
            log(complaint)
        try:
            for one in found:
                write_rank_table(one, self._folder)
        except OSError as error:
            log(f"{self._folder}: messages cannot be written there ({error.strerror})")

    def tables(self) -> list[str]:
        """Put the tables of all ranks together, also of those that other monitors have counted; what was
        written, as lines.
        """
        from chimbuko.monitor.report.matrix import write_all
        from chimbuko.monitor.report.ranktables import rank_tables, read_rank_tables

        lines = ["", "Messages:"]
        try:
            while True:
                known = rank_tables(self._folder)
                found, complaints = read_rank_tables(self._folder)
                lines[2:] = [*write_all(found, self._folder), *complaints]
                # Another node's last monitor may have written just now, and have known less than there is.
                if rank_tables(self._folder) == known:
                    return lines if found else [*lines, "none were counted: no process has used MPI"]
        except (ConfigError, OSError) as error:
            return [*lines, str(error)]

    def close(self) -> None:
        """Forget what has not been collected."""
        remove_ring_folder(self._place)


def mpi_among(command: Sequence[str], environment: Mapping[str, str]) -> MpiLibrary:
    """Return the MPI of the first word of a command that is a program which is linked with one.

    Raises
    ------
    ConfigError
        There is none.
    """
    for word in command:
        path = shutil.which(word, path=environment.get("PATH", os.defpath))
        program = None if path is None else native_program(Path(path))
        mpi = mpi_of(program.path, environment) if program is not None and program.is_elf else None
        if mpi is not None:
            return mpi
    raise ConfigError(
        f"no word of '{' '.join(command)}' is a program that is linked with MPI; where a script starts it, "
        "put 'chimbuko monitor' before the program there"
    )
