"""Names of the functions of one stream that TAU could not name."""

from __future__ import annotations

import os
import time
from collections import abc, defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko.capture.symbols.cache import BinarySymbols, Request, SymbolCache, binary_key
from chimbuko.capture.symbols.client import ask
from chimbuko.capture.symbols.maps import MAPPED_FILE, deduce_base, mapping_at, parse_maps
from chimbuko.capture.symbols.maps import Mapping as MappedFile
from chimbuko.capture.symbols.taunames import Unresolved, find_unresolved, offset_name, with_places

# Process that wrote a stream, as far as it can be seen on this node.


CLOCK_SLACK_S = 2.0
"""Time by which a process may seem to begin after TAU: clocks are set, and the kernel counts in ticks."""


class ProcessGoneError(Exception):
    """Error that the process cannot be inspected; its text says why."""


class TracedProcess(msgspec.Struct, frozen=True):
    """Process as TAU describes it."""

    pid: int
    executable: str
    host: str
    started_us: int
    """Time at which TAU began, in µs since the epoch; 0 if it is not known."""

    @staticmethod
    def of(metadata: abc.Mapping[tuple[int, int, str], str], rank: int) -> TracedProcess | None:
        """Return the process of a rank from its stream's metadata; None until that is there."""

        def said(key: str) -> str:
            return metadata.get((rank, 0, key), "")

        pid, started = said("pid"), said("Starting Timestamp")
        if not pid.isdecimal() or not said("Executable"):
            return None
        return TracedProcess(
            int(pid), said("Executable"), said("Hostname"), int(started) if started.isdecimal() else 0
        )

    @property
    def is_of_this_node(self) -> bool:
        """Whether the process ran on this node, or has not said where."""
        return not self.host or _short(self.host) == _short(os.uname().nodename)

    def mappings(self) -> list[MappedFile]:
        """Return the current mappings of the process.

        Raises
        ------
        ProcessGoneError
            It has ended, or ran on another node, or its process id belongs to another process by now.
        """
        if not self.is_of_this_node:
            raise ProcessGoneError("the program ran on another node")
        folder = Path("/proc", str(self.pid))
        try:
            found = parse_maps((folder / "maps").read_text(errors="surrogateescape"))
            executable = os.readlink(folder / "exe").removesuffix(" (deleted)")
            began_s = _began_s((folder / "stat").read_text(errors="replace"))
        except PermissionError:
            raise ProcessGoneError("the program is another user's") from None
        except (OSError, ValueError, IndexError):
            raise ProcessGoneError("the program had ended") from None
        if executable != self.executable:
            raise ProcessGoneError("the program had ended, or ran in a container of its own")
        if self.started_us and began_s > self.started_us / 1e6 + CLOCK_SLACK_S:
            raise ProcessGoneError("the program had ended")
        return found

    def visible(self, path: str) -> str:
        """Return the path of a file of the process as seen from here: it may have another mount namespace."""
        try:
            is_ours = os.readlink(f"/proc/{self.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
        except OSError:
            return path
        return path if is_ours else f"/proc/{self.pid}/root{path}"


def _began_s(stat: str) -> float:
    """Return the time at which a process began, in s since the epoch, from its line in ``/proc/PID/stat``."""
    # The name of the program may contain blanks and parentheses.
    ticks = int(stat.rpartition(")")[2].split()[19])
    ago_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - ago_s


def _short(host: str) -> str:
    return host.partition(".")[0]


REMEDY = "link it with -no-pie, or let it run longer"
REPLACED = "it was replaced while the program ran; replace it only after the program has ended"
LATER = "a library that was loaded later"
"""Name in place of that of a binary that TAU did not know, in a process that has ended."""
FEW_ADDRESSES = 3
"""Fewest addresses that tell a binary from one built anew, on a node where the program did not run."""
NEWER_S = 1.0
"""Tolerance for the clocks of file systems, which differ a little from that of the node."""

Metadata = Mapping[tuple[int, int, str], str]
SourcePlace = tuple[str, str, int]
"""Location in the source: function, file and line."""
Steps = Generator[None, None, None]
"""Steps of a look-up: a generator that yields while there is nothing yet; pause between two steps."""


def noted_files(metadata: Metadata, rank: int) -> list[MappedFile]:
    """Return the mappings of binaries that the recorder of a process has noted in its metadata."""
    lines = [text for (of, _, key), text in metadata.items() if of == rank and key.startswith(MAPPED_FILE)]
    return parse_maps("\n".join(lines))


class Resolver:
    """Resolver of the addresses in the names of one process's functions.

    A name depends on the process and its binaries alone, and never on the time or the rank of the request.

    Parameters
    ----------
    rank
        Rank of the process in its metadata.
    """

    def __init__(self, rank: int, cache: SymbolCache | None = None) -> None:
        self._rank = rank
        self._cache = SymbolCache() if cache is None else cache
        self._process: TracedProcess | None = None
        self._mapped: list[MappedFile] = []
        self._noted: list[MappedFile] = []
        """Mappings that the recorder of the process has noted; they are there after its end, too."""
        self._metadata_seen = 0
        self._gone = "its process is not known"
        """Why the mappings of the process cannot be read."""
        self._places: dict[int, SourcePlace] = {}
        self._bases: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        """Why functions have no names, and what to do about it, by binary."""

    def note_process(self, metadata: Metadata) -> None:
        """Read the mappings of the process as soon as it is known: it may soon have ended."""
        if self._process is None and (process := TracedProcess.of(metadata, self._rank)) is not None:
            self._process = process
            self._look()
        if len(metadata) != self._metadata_seen:
            self._metadata_seen = len(metadata)
            self._noted = noted_files(metadata, self._rank)

    def look_up(self, names: Iterable[str]) -> Steps:
        """Look up the addresses in names, for :meth:`named`."""
        unresolved = {found for name in names for found in find_unresolved(name)}
        if any(self._mapping_at(found.address) is None for found in unresolved):
            # Libraries may have been loaded since the last look.
            self._look()
        mapped: dict[str, dict[int, MappedFile]] = defaultdict(dict)
        elsewhere: dict[str, list[Unresolved]] = defaultdict(list)
        for found in sorted(unresolved, key=lambda found: (found.address, found.is_entry)):
            mapping = self._mapping_at(found.address)
            if mapping is None:
                elsewhere[found.path].append(found)
            else:
                mapped[mapping.path][found.address] = mapping
        for path, mappings in mapped.items():
            yield from self._by_mapping(path, mappings)
        # The functions whose binary TAU did not know come last.
        for path in sorted(elsewhere, reverse=True):
            yield from self._by_base(path or self._executable, elsewhere[path])

    def named(self, name: str) -> str:
        """Return a name with functions, files and lines in place of the addresses that were looked up."""
        return with_places(name, self._places.get)

    def give_up(self, names: Iterable[str], problem: str) -> None:
        """Note a problem of the binaries of addresses that have not been looked up."""
        for name in names:
            for found in find_unresolved(name):
                if found.address not in self._places:
                    self.problems.setdefault(found.path or self._executable or "the program", problem)

    def has_ended(self) -> bool:
        """Whether the process has ended, or never was on this node."""
        return self._process is None or not Path("/proc", str(self._process.pid)).exists()

    @property
    def _executable(self) -> str:
        return "" if self._process is None else self._process.executable

    def _mapping_at(self, address: int) -> MappedFile | None:
        return mapping_at(self._mapped, address) or mapping_at(self._noted, address)

    def _look(self) -> None:
        if self._process is None:
            return
        try:
            self._mapped = self._process.mappings()
        except ProcessGoneError as error:
            self._gone = str(error)

    def _by_mapping(self, path: str, mappings: dict[int, MappedFile]) -> Steps:
        """Look up functions in a file that the process has mapped."""
        offsets = {address: mapping.file_offset(address) for address, mapping in mappings.items()}
        is_noted = any(mapping not in self._mapped for mapping in mappings.values())
        if any(mapping.is_deleted for mapping in mappings.values()) or (is_noted and self._has_changed(path)):
            known = BinarySymbols(problem=REPLACED)
        else:
            known = yield from self._ask(path, offsets=list(offsets.values()))
        for address, offset in offsets.items():
            place = known.address_at(offset)
            self._keep(address, path, offset if place is None else place, known)

    def _has_changed(self, path: str) -> bool:
        """Whether a binary was changed after the process had begun."""
        started_us = 0 if self._process is None else self._process.started_us
        with suppress(OSError):
            return bool(started_us) and Path(path).stat().st_mtime > started_us / 1e6 + NEWER_S
        return False

    def _by_base(self, path: str, found: list[Unresolved]) -> Steps:
        """Look up functions of a process without known mappings, by the distances between their addresses."""
        if path not in self._bases and not (yield from self._finds_base(path, found)):
            return
        base = self._bases[path]
        known = yield from self._ask(path, places=[one.address - base for one in found if one.address > base])
        starts = set(known.entries().tolist())
        for one in found:
            place = known.places.get(one.address - base)
            # TAU says that functions of a library that was loaded later are the program's.
            if place is not None and place.name and (not one.is_entry or one.address - base in starts):
                self._keep(one.address, path, one.address - base, known)
            else:
                self.problems[LATER] = f"{self._gone}; {REMEDY}"

    def _finds_base(self, path: str, found: list[Unresolved]) -> Generator[None, None, bool]:
        entries = {one.address for one in found if one.is_entry}
        problem = self._distrusted(path, len(entries))
        if not problem:
            known = yield from self._ask(path, addresses=entries)
            base = deduce_base(entries, known.entries(), known.is_fixed)
            if base is not None:
                self._bases[path] = base
                return True
            problem = known.problem or f"{self._gone} before it was looked at; {REMEDY}"
        self.problems[path or self._executable or "the program"] = problem
        return False

    def _distrusted(self, path: str, addresses: int) -> str:
        """Return why the present binary cannot be taken for the one that ran; empty if it can."""
        process = self._process
        if process is None:
            return f"{self._gone}; link it with -no-pie"
        try:
            Path(path).stat()
        except OSError as error:
            return f"{self._gone}, and it cannot be read ({error.strerror}); leave it where it was"
        if self._has_changed(path):
            return f"{self._gone}, and it has changed since; leave it as it was"
        if addresses < (1 if process.is_of_this_node else FEW_ADDRESSES):
            return f"{self._gone}, and too few of its functions are known; {REMEDY}"
        return ""

    def _ask(
        self,
        path: str,
        offsets: Collection[int] = (),
        addresses: Collection[int] = (),
        places: Collection[int] = (),
    ) -> Generator[None, None, BinarySymbols]:
        visible = path if self._process is None else self._process.visible(path)
        try:
            key = binary_key(Path(visible))
        except OSError as error:
            return BinarySymbols(problem=f"it cannot be read ({error.strerror}); let this user read it")
        if self._keys.setdefault(path, key) != key:
            return BinarySymbols(problem=REPLACED)
        request = Request(visible, key, sorted(offsets), sorted(addresses), sorted(places))
        return (yield from ask(request, self._cache))

    def _keep(self, address: int, path: str, place: int, known: BinarySymbols) -> None:
        found = known.places.get(place)
        if found is None or not found.name:
            # The offset in the binary is the same on all ranks.
            self._places[address] = offset_name(path, place), path, 0
            self.problems[path] = known.problem or "it has no symbol for them"
        else:
            self._places[address] = found.name, found.file or path, found.line
