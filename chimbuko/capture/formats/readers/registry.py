"""All formats of traces that can be read, with how a file of each is known: by its content."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

import msgspec

from chimbuko.capture.formats.readers.events import Catalogue
from chimbuko.capture.formats.readers.jsontext import Survey, stranger, survey
from chimbuko.core import plugins
from chimbuko.core.arrays import Table
from chimbuko.core.errors import TraceFormatError

HEAD_BYTES: Final = 1 << 16
PIECE_BYTES: Final = 4 << 20
UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""Errors by which reading a file, packed or not, may end."""
_GZIP: Final = b"\x1f\x8b"


class Reader(Protocol):
    """Takes the bytes of one trace in as they come."""

    def feed(self, data: bytes) -> Table:
        """Return the events that the next bytes complete."""

    def finish(self) -> Table:
        """Return the events that are left, as no more bytes will come."""

    @property
    def complaint(self) -> str:
        """Reason why part of the trace could not be read; empty if all could."""


class JsonReader(Reader, Protocol):
    """Takes the bytes of a trace in JSON."""

    def foreknow(self, beside: Mapping[str, Any]) -> None:
        """Take what stands beside the events, wherever it stands."""


class Sample(msgspec.Struct, frozen=True):
    """Begin and name of a file, by which its format is recognised."""

    head: bytes
    """First bytes, unpacked."""
    name: str
    found: Survey
    """Layout of a text in JSON that is an object; nothing of others."""


class Format(msgspec.Struct, frozen=True):
    """One format."""

    name: str
    is_it: Callable[[Sample], bool]
    module: str
    """Module, which lies here if it begins with a dot. It has ``Reader``, which takes a catalogue, the number
    of the file among all, and its name; or ``events``, which takes the file's path instead of its name, and
    yields its events.
    """
    needs: str = ""
    """Package that the format needs."""
    is_streamed: bool = True
    """Whether the module has a ``Reader``."""
    is_json: bool = False
    """Whether the module's reader is a ``JsonReader``."""


_JSON: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\[[ \t\r\n]*(?:[\[{\"\],]|\Z)|{[ \t\r\n]*(?:[\"}]|\Z))"
)
"""A bracket, and what may stand behind it: of Perfetto's traces some begin by a line's end and a bracket."""
_KINETO_KEYS: Final = frozenset(
    ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")
)
_KINETO: Final = re.compile(
    rb'"(?:%s)"\s*:|"cat"\s*:\s*"(?:cpu_op|cuda_runtime|cuda_driver)"' % "|".join(_KINETO_KEYS).encode()
)
"""Key beside the events, or category of an event, that nobody but PyTorch's profiler writes."""


ROCPROF_KEY: Final = "rocprofiler-sdk-tool"
_ROCPROF_COLUMNS: Final = (b"Start_Timestamp", b"End_Timestamp")
_SQLITE: Final = b"SQLite format 3\0"
_REPORTS: Final = (".nsys-rep", ".qdrep")
SPEEDSCOPE_KEYS: Final = frozenset(("$schema", "shared", "profiles"))
_OBJECT: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*{")


def _is_json(sample: Sample) -> bool:
    return _JSON.match(sample.head) is not None


def _is_kineto(sample: Sample) -> bool:
    is_kineto = _KINETO.search(sample.head) or _KINETO_KEYS.intersection(sample.found.keys)
    return _is_json(sample) and bool(is_kineto)


def _is_rocprof_table(sample: Sample) -> bool:
    line = sample.head.partition(b"\n")[0]
    return b"," in line and all(column in line for column in _ROCPROF_COLUMNS)


FORMATS: Final = (
    Format(
        "speedscope",
        lambda sample: set(sample.found.keys) >= SPEEDSCOPE_KEYS,
        ".speedscope",
        is_streamed=False,
    ),
    Format("rocprofv3", lambda sample: ROCPROF_KEY in sample.found.keys, ".rocprofjson", is_streamed=False),
    Format("rocprofv3's tables", _is_rocprof_table, ".rocprofcsv", is_streamed=False),
    Format("Nsight Systems", lambda sample: sample.head.startswith(_SQLITE), ".nsight", is_streamed=False),
    Format("PyTorch", _is_kineto, ".kineto", is_json=True),
    Format(
        "PerfFlowAspect",
        lambda sample: _is_json(sample) and ".pfw" in sample.name,
        ".perfflowaspect",
        is_json=True,
    ),
    Format("Chrome", _is_json, ".chrome", is_json=True),
    Format(
        "Perfetto",
        lambda sample: sample.head.startswith(b"\n"),
        ".perfetto",
        "pip install 'chimbuko[perfetto]'",
    ),
    Format(
        "Caliper",
        lambda sample: sample.head.startswith(b"__rec="),
        ".caliper",
        "pip install 'chimbuko[caliper]'",
        is_streamed=False,
    ),
    Format(
        "OTF2",
        lambda sample: sample.name.endswith(".otf2"),
        ".otf2",
        "pip install 'chimbuko[otf2]'",
        is_streamed=False,
    ),
)
"""Formats of our own: the first that knows a file reads it."""


def open_unpacked(path: Path) -> IO[bytes]:
    """Return a file, unpacked where it is packed by gzip.

    Raises
    ------
    OSError
        It cannot be read.
    """
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
    return gzip.open(path) if is_packed else path.open("rb")  # type: ignore[return-value]


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file, a few megabytes at a time; before an error all that came before it."""
    held, size = [], 0
    try:
        while data := file.read1(PIECE_BYTES):  # type: ignore[attr-defined]
            held.append(data)
            size += len(data)
            if size >= PIECE_BYTES:
                yield b"".join(held)
                held, size = [], 0
    except UNREADABLE:
        yield b"".join(held)
        raise
    yield b"".join(held)


def format_of(path: Path) -> Format:
    """Return the format of a file.

    Raises
    ------
    TraceFormatError
        It cannot be read, or is in no format that is known.
    """
    try:
        with open_unpacked(path) as file:
            head = file.read(HEAD_BYTES)
    except UNREADABLE as error:
        raise TraceFormatError(f"{path}: cannot be read ({_reason(error)})") from error
    sample = Sample(head, path.name, _surveyed(path) if _OBJECT.match(head) else Survey())
    for known in _formats():
        if known.is_it(sample):
            if known.is_json and (said := stranger(sample.found)):
                raise TraceFormatError(f"{path}: {said}")
            return known
    if path.suffix in _REPORTS:
        raise TraceFormatError(
            f"{path}: a report; 'nsys export --type sqlite {path.name}' writes what is read here"
        )
    names = ", ".join(known.name for known in _formats())
    raise TraceFormatError(f"{path}: not a trace in a format that is known here ({names})")


def _formats() -> Iterator[Format]:
    """Yield all formats; plugins are asked about what none of ours is."""
    yield from FORMATS
    for _, form in plugins.working("readers", Format):
        yield form


def _surveyed(path: Path) -> Survey:
    """Survey of a file; of one that did not change since, the last."""
    about = path.stat()
    return _survey(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=1024)
def _survey(path: Path, size: int, modified_ns: int) -> Survey:
    def readable() -> Iterator[bytes]:
        # What cannot be read any further is told by the reader, which comes as far.
        with suppress(*UNREADABLE), open_unpacked(path) as file:
            yield from pieces(file)

    return survey(readable())


def reader_of(form: Format, catalogue: Catalogue, source: int, name: str) -> Reader:
    """Return a reader of a format that is streamed.

    Raises
    ------
    TraceFormatError
        What it needs is not installed.
    """
    reader: Reader = _module(form).Reader(catalogue, source, name)
    return reader


def events_of(path: Path, catalogue: Catalogue, source: int) -> Iterator[Table]:
    """Yield the events of a file, a few megabytes at a time; what is wrong with it is a complaint of the
    catalogue.

    Raises
    ------
    TraceFormatError
        It is in no format that is known, or what its reader needs is not installed.
    """
    form = format_of(path)
    complaint = ""
    try:
        if form.is_streamed:
            reader = reader_of(form, catalogue, source, path.name)
            if form.is_json:
                cast(JsonReader, reader).foreknow(_surveyed(path).beside)
            with open_unpacked(path) as file:
                for data in pieces(file):
                    yield reader.feed(data)
        else:
            yield from _module(form).events(catalogue, source, path)
    except UNREADABLE as error:
        complaint = f"it cannot be read any further ({_reason(error)})"
    if form.is_streamed:
        yield reader.finish()
        complaint = complaint or reader.complaint
    if complaint:
        catalogue.complaints.append(f"{path}: {complaint}; what came before is taken")


def check(path: Path) -> None:
    """Look whether a file can be read.

    Raises
    ------
    TraceFormatError
        It is in no format that is known, or what its reader needs is not installed.
    """
    _module(format_of(path))


def _module(form: Format) -> Any:
    try:
        return plugins.imported(form.module, __package__)
    except ImportError as error:
        raise TraceFormatError(
            f"to read a trace of {form.name} install what that needs: {form.needs}"
        ) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
