"""A running process, as far as it must be known to bring it to run Python code."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection
from elftools.elf.sections import SymbolTableSection

from chimbuko.core.errors import ConfigError

OLDEST = (3, 11)
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


class Target:
    """A process of this user on this node.

    Raises
    ------
    ConfigError
        There is none with this id that can be read.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._files = dict(self._mapped())

    @property
    def words(self) -> list[str]:
        """Command line of the process."""
        return [
            os.fsdecode(word) for word in Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")[:-1]
        ]

    def check(self) -> None:
        """See that Python code can be run in it.

        Raises
        ------
        ConfigError
            It cannot, and why.
        """
        where = f"process {self.pid}"
        if not self.address("Py_AddPendingCall"):
            raise ConfigError(
                f"{where} is no Python program: recording it takes a new start by 'chimbuko run'; without "
                f"one 'chimbuko monitor --pid {self.pid}' watches its threads and cores"
            )
        if self.version < OLDEST:
            raise ConfigError(
                f"{where} is of Python {self.version[0]}.{self.version[1]}; recording takes 3.11 or newer"
            )
        if platform.machine() != "x86_64":
            raise ConfigError(f"{where}: attaching takes an x86-64 processor; start it by 'chimbuko run'")
        if tracer := self.status("TracerPid").strip("0"):
            raise ConfigError(f"{where} is being debugged by process {tracer}; end that first")

    @cached_property
    def version(self) -> tuple[int, int]:
        """Version of its Python; that of Pythons which do not tell is before 3.11."""
        place = self.address("Py_Version")
        if not place:
            return 3, 10
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            memory.seek(place)
            (number,) = struct.unpack("<L", memory.read(4))
        return number >> 24, number >> 16 & 0xFF

    def status(self, field: str) -> str:
        """Return a field of the process's status; empty if it has ended."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith(f"{field}:"):
                    return line.partition(":")[2].strip()
        return ""

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.status("State")[:1] not in ("", "Z", "X")

    def address(self, symbol: str, begin: str = "") -> int:
        """Return the address of a function or value that a file in its memory exports; 0 if none does.

        Parameters
        ----------
        begin
            Begin of the name of the file; by default that of a Python.
        """
        for path, base in self._files.items():
            name = os.path.basename(path)
            if name.startswith(begin) if begin else "python" in name.lower() or path == self._program:
                with suppress(OSError, ELFError):
                    if found := _exported(f"/proc/{self.pid}/root{path}", symbol):
                        value, is_movable = found
                        return base + value if is_movable else value
        return 0

    @cached_property
    def _program(self) -> str:
        with suppress(OSError):
            return os.readlink(f"/proc/{self.pid}/exe")
        return ""

    def _mapped(self) -> Iterator[tuple[str, int]]:
        """Yield the files in its memory, with the address of the first byte of each."""
        seen = set()
        try:
            lines = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        except FileNotFoundError:
            raise ConfigError(
                f"{self.pid}: no such process here; it may have ended, or run on another node"
            ) from None
        except OSError as error:
            raise ConfigError(f"process {self.pid}: {refusal(error)}") from error
        for line in lines:
            fields = line.split(maxsplit=5)
            if (
                len(fields) == 6
                and fields[5].startswith("/")
                and int(fields[2], 16) == 0
                and fields[5] not in seen
            ):
                seen.add(fields[5])
                yield fields[5], int(fields[0].partition("-")[0], 16)


def refusal(error: OSError) -> str:
    """Return why the system lets nobody look into a process, and what to do."""
    scope = "0"
    with suppress(OSError):
        scope = _YAMA.read_text().strip()
    if scope != "0":
        return (
            f"the system allows no debugger here (kernel.yama.ptrace_scope is {scope}); root can set it to "
            "0, or start the program by 'chimbuko run'"
        )
    return f"it may not be debugged from here ({error.strerror}); is it yours?"


def _exported(path: str, symbol: str) -> tuple[int, bool] | None:
    """Return the value of an exported symbol, and whether it counts from where the file was loaded."""
    with open(path, "rb") as file:
        elf = ELFFile(file)
        first = next((one for one in elf.iter_segments("PT_LOAD")), None)
        if first is None:
            return None
        moved = elf["e_type"] == "ET_DYN"
        for section in elf.iter_sections():
            found = None
            if isinstance(section, GNUHashSection):
                found = section.get_symbol(symbol)
            elif isinstance(section, SymbolTableSection) and section["sh_type"] == "SHT_DYNSYM":
                found = next(iter(section.get_symbol_by_name(symbol) or ()), None)
            if found is not None and found["st_shndx"] != "SHN_UNDEF":
                return int(found["st_value"]) - (int(first["p_vaddr"]) if moved else 0), moved
    return None
