"""TAU's settings: what is handed to an application, and what a writer of ours takes from its environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from chimbuko.capture.trace.discovery import (
    BP5,
    BP_FILE,
    SST,
    STREAM_PREFIX,
    TAU_IO_NAME,
    Transport,
    parse_stream_path,
)
from chimbuko.core.errors import ConfigError

if TYPE_CHECKING:
    # A traced program loads this module: it must not pay for numpy, and its Python may have no packages.
    from chimbuko.capture.trace.writer import StreamWriter

_OF_A_RUN = re.compile(r"chimbuko-(?:[0-9a-f]{12}|overhead)-.+")
"""Names of folders that runs make for streams of their own."""

KEPT_SST_STEPS = 4
"""The newest steps that a writer over SST keeps in memory, read or not, for a reader that comes late."""
UNREAD_SST_STEPS = 4
"""Further steps that a writer over SST keeps for a slow reader: the first step, and unread ones."""

SAFE_SST_PARAMETERS = {
    "RendezvousReaderCount": "0",
    "QueueFullPolicy": "Discard",
    "QueueLimit": str(KEPT_SST_STEPS + UNREAD_SST_STEPS),
    # The first step is one of them.
    "ReserveQueueLimit": str(1 + KEPT_SST_STEPS),
    "FirstTimestepPrecious": "true",
}
"""SST settings under which a reader that is absent, slow, stopped or killed never delays the writer.

Every reader begins with step 0, whenever it comes: TAU names nearly all timers there, once. Without it
a reader never gets step 0, not even one that has waited for it (measured: 63 to 96 % of rows unnamed).
After it come the steps that are kept: a reader is let in while a step is written, and without them lost
that step and all before it.
"""

FILE_PARAMETERS = {
    "StatsLevel": "0",
    "MinDeferredSize": "4096",
    "BufferChunkSize": "1048576",
    "Profile": "Off",
}
"""BP5 settings under which a step costs its writer least: nobody asks for the extremes of an array, and an
array is written from where it lies, and not copied into fresh memory first (at 100,000 rows a step 1.2 ms
instead of 5.6). A profile would go to the stream's path at its end, where the next instance may be."""

SST_TIMERS = "#adios2/toolkit/sst#"
"""Timers of SST's own network thread. Under TAU they have to be excluded: the plugin holds its mutex
while it writes a step, the network thread wants that mutex for its first timer, and the end of the
step waits for the network thread, so a reader that joins late would hang the application for ever."""

SELECT_FILE_NAME = "tau-select.txt"
"""The select file among a run's settings."""

CLAIMS_FOLDER = ".ranks"
"""Folder beside the streams of a run, with an empty file for each rank that our tracer traces."""
INSTANCES_VARIABLE = "CHIMBUKO_INSTANCES"
"""Set where our tracer notes that two programs take themselves for the same rank."""

DEFAULT_PERIOD_US = 2_000_000
"""TAU's own."""

_SECTION = re.compile(r"(BEGIN|END)_(INCLUDE|EXCLUDE)_(TIMERS|COUNTERS)")


class Patterns(NamedTuple):
    """Names to include and to exclude. ``#`` stands for any string, ``?`` for any character."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """Return whether TAU would record a timer: exact names go before wildcards, then exclusion before
        inclusion.
        """
        if name in self.exclude:
            return False
        if name in self.include:
            return True
        if _matches(name, self.exclude):
            return False
        return not self.include or _matches(name, self.include)

    def __or__(self, other: Patterns) -> Patterns:
        return Patterns(self.include + other.include, self.exclude + other.exclude)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(
        re.fullmatch(re.escape(pattern).replace(r"\#", ".*").replace(r"\?", "."), name, re.DOTALL)
        for pattern in patterns
    )


class TimerFilter(NamedTuple):
    """Filter of the timers and counters that enter the trace: the content of a TAU select file."""

    timers: Patterns = Patterns()
    counters: Patterns = Patterns()

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Parse a select file.

        Raises
        ------
        ConfigError
            Not readable, or not in TAU's format.
        """
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: TAU select file cannot be read ({error})") from error
        found: dict[str, tuple[str, ...]] = {}
        section = ""
        for number, line in enumerate(map(str.strip, lines), 1):
            where = f"{path}:{number}"
            # Only outside a section does # begin a comment: inside it is a wildcard.
            if not line or (line.startswith("#") and not section):
                continue
            marker = _SECTION.fullmatch(line)
            if marker is None:
                if not section:
                    raise ConfigError(f"{where}: {line!r} stands outside a BEGIN_... END_... section")
                found[section] = (*found.get(section, ()), line)
            elif marker[1] == "BEGIN" and not section:
                section = f"{marker[2]}_{marker[3]}"
            elif marker[1] == "END" and section == f"{marker[2]}_{marker[3]}":
                section = ""
            else:
                raise ConfigError(f"{where}: {line} does not fit; the open section is {section or 'none'}")
        if section:
            raise ConfigError(f"{path}:{len(lines)}: END_{section} is missing")
        return cls(
            Patterns(found.get("INCLUDE_TIMERS", ()), found.get("EXCLUDE_TIMERS", ())),
            Patterns(found.get("INCLUDE_COUNTERS", ()), found.get("EXCLUDE_COUNTERS", ())),
        )

    def text(self) -> str:
        """Return the text of a select file."""
        sections = {
            "INCLUDE_TIMERS": self.timers.include,
            "EXCLUDE_TIMERS": self.timers.exclude,
            "INCLUDE_COUNTERS": self.counters.include,
            "EXCLUDE_COUNTERS": self.counters.exclude,
        }
        blocks = (
            "\n".join((f"BEGIN_{section}", *patterns, f"END_{section}\n"))
            for section, patterns in sections.items()
            if patterns
        )
        return "".join(blocks)

    def allows_timer(self, name: str) -> bool:
        """Whether calls of this timer are recorded."""
        return self.timers.allows(name)

    def allows_counter(self, name: str) -> bool:
        """Whether values of this counter are recorded."""
        return self.counters.allows(name)


def adios2_settings(engine: str, parameters: Mapping[str, str]) -> str:
    """ADIOS2's XML settings of the stream, which replace all of TAU's own."""
    from xml.sax.saxutils import quoteattr

    lines = "".join(
        f"\n            <parameter key={quoteattr(key)} value={quoteattr(value)}/>"
        for key, value in parameters.items()
    )
    return f"""<?xml version="1.0"?>
<adios-config>
    <io name={quoteattr(TAU_IO_NAME)}>
        <engine type={quoteattr(engine)}>{lines}
        </engine>
    </io>
</adios-config>
"""


def transport_settings(transport: Transport) -> tuple[str, dict[str, str]]:
    """ADIOS2's engine of an application's streams, and its parameters."""
    return (SST, SAFE_SST_PARAMETERS) if transport is Transport.SST else (BP5, FILE_PARAMETERS)


def application_settings(
    run_settings_folder: Path,
    trace_folder: Path,
    period_us: int,
    user_environment: Mapping[str, str],
    transport: Transport,
) -> dict[str, str]:
    """Environment for an application whose TAU (or our tracer) shall stream to us without ever being held up.

    Parameters
    ----------
    run_settings_folder
        Exists; the ADIOS2 settings and the select file are written there.
    trace_folder
        Exists; the streams, or their contact files, appear there.
    period_us
        Shortest time between two steps of a stream, in µs.
    user_environment
        What the user has set: a select file is merged into ours, and choices that cannot
        do harm (messages tracked, throttling, profiles) are respected.

    Raises
    ------
    ConfigError
        The user's select file is not usable, or ours cannot be written.
    """
    select = TimerFilter(Patterns(exclude=(SST_TIMERS,)))
    if user_select := user_environment.get("TAU_ADIOS2_SELECT_FILE"):
        users = TimerFilter.from_file(Path(user_select))
        select = TimerFilter(select.timers | users.timers, select.counters | users.counters)
    select_path = run_settings_folder.absolute() / SELECT_FILE_NAME
    config_path = run_settings_folder.absolute() / f"adios2-{transport}.xml"
    try:
        select_path.write_text(select.text())
        config_path.write_text(adios2_settings(*transport_settings(transport)))
    except OSError as error:
        raise ConfigError(f"{error.filename}: settings cannot be written ({error.strerror})") from error
    harmless = {"TAU_TRACK_MESSAGE": "1", "TAU_THROTTLE": "0", "TAU_PROFILE": "0"}
    return {
        "TAU_ADIOS2_PERIODIC": "1",
        "TAU_ADIOS2_PERIOD": str(period_us),
        "TAU_ADIOS2_ENGINE": transport_settings(transport)[0],
        "TAU_ADIOS2_FILENAME": str(trace_folder.absolute() / STREAM_PREFIX),
        "TAU_ADIOS2_ONE_FILE": "false",
        "TAU_ADIOS2_CONFIG_FILE": str(config_path),
        "TAU_ADIOS2_SELECT_FILE": str(select_path),
        INSTANCES_VARIABLE: "1",
        **{name: user_environment.get(name, value) for name, value in harmless.items()},
    }


class WriterSettings(NamedTuple):
    """Path and settings with which a writer of ours, in the application, writes its stream."""

    engine: str
    prefix: Path
    period_us: int
    is_periodic: bool
    """Whether a step is written each period; else only when it grows too large, and at the end."""
    config_file: Path | None
    select: TimerFilter
    has_instances: bool
    """Whether further processes that take themselves for a rank become others; else they write it anew."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Take TAU's variables. Unlike TAU, steps are periodic unless ``TAU_ADIOS2_PERIODIC`` says no.

        Raises
        ------
        ConfigError
            The period is not a positive number, or the select file is not usable.
        """
        period = environment.get("TAU_ADIOS2_PERIOD", str(DEFAULT_PERIOD_US))
        if not period.isdecimal() or int(period) == 0:
            raise ConfigError(f"TAU_ADIOS2_PERIOD={period}: not a number of microseconds above 0")
        config_file = environment.get("TAU_ADIOS2_CONFIG_FILE")
        select_file = environment.get("TAU_ADIOS2_SELECT_FILE")
        return cls(
            engine=environment.get("TAU_ADIOS2_ENGINE", BP_FILE),
            prefix=Path(environment.get("TAU_ADIOS2_FILENAME", STREAM_PREFIX)),
            period_us=int(period),
            is_periodic=environment.get("TAU_ADIOS2_PERIODIC", "1").lower() in ("1", "yes", "true", "on"),
            config_file=Path(config_file) if config_file else None,
            select=TimerFilter.from_file(Path(select_file)) if select_file else TimerFilter(),
            has_instances=environment.get(INSTANCES_VARIABLE, "0") not in ("", "0"),
        )

    @property
    def is_live(self) -> bool:
        """Whether readers take the steps while the program runs."""
        if self.config_file is None:
            return self.engine == SST
        from xml.etree import ElementTree

        engines = ElementTree.parse(self.config_file).iter("engine")
        return any(engine.get("type") == SST for engine in engines)

    def stream_path(self, program: str, rank: int, first_rank: int = 0) -> Path:
        """Return TAU's path of a rank's stream; ``first_rank`` is added to the first rank in the prefix."""
        prefix = self.prefix.name
        if first_rank:
            name, _, number = prefix.rpartition(".")
            is_numbered = bool(name) and number.isdecimal()
            prefix = f"{name}.{int(number) + first_rank}" if is_numbered else f"{prefix}.{first_rank}"
        return self.prefix.with_name(f"{prefix}-{program}-{rank}.bp").absolute()

    def open(self, program: str, rank: int, first_rank: int = 0) -> StreamWriter:
        """Open the stream of one rank.

        Raises
        ------
        TraceFormatError
            It cannot be written.
        """
        from chimbuko.capture.trace.writer import StreamWriter

        parameters = SAFE_SST_PARAMETERS if self.engine.upper() == SST else FILE_PARAMETERS
        path = self.stream_path(program, rank, first_rank)
        return StreamWriter(path, self.engine, parameters, self.config_file)


def claim(stream: Path) -> bool:
    """Take a rank for this process, beside the stream that shall have it; False if it is taken.

    Raises
    ------
    ConfigError
        The folder cannot be written, or the run that had made it has ended.
    """
    if _OF_A_RUN.fullmatch(stream.parent.name) and not stream.parent.exists():
        # Nobody would remove it a second time.
        raise ConfigError(f"{stream.parent}: the run has ended, and removed it")
    instance = parse_stream_path(stream)
    # The same rank may be named in several ways.
    owner = f"{instance.program}-{instance.rank}" if instance else stream.name
    mark = stream.parent / CLAIMS_FOLDER / owner
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"{mark}: rank cannot be claimed ({error.strerror})") from error
    return True
