"""Python code that a running Python is brought to run, at the next safe point of its main thread, and what
must be known of that process.

The main thread is held for a moment. Its registers are made to call ``Py_AddPendingCall``, which only
notes the call and is safe at any moment, and are put back: the code itself runs when Python looks for such
calls, as it does between two instructions. Other threads are not held.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection
from elftools.elf.sections import SymbolTableSection

from chimbuko.core.errors import ConfigError

# A running process, as far as it must be known to bring it to run Python code.


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


CONT, GETREGS, SETREGS, DETACH, SEIZE, INTERRUPT = 7, 12, 13, 17, 0x4206, 0x4207
LONGEST_S = 2.0
"""Longest wait for a function to return: the thread may have been stopped while it held a lock of it."""
TRIES = 3
RED_ZONE = 1024
"""Bytes below the stack pointer that may be in use; 128 of them by the ABI."""
_PROTECTION, _PRIVATE = 3, 0x22
_NAMES = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)


class Registers(ctypes.Structure):
    """Registers of a thread on x86-64, as the kernel gives them."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in _NAMES]


_libc = ctypes.CDLL(None, use_errno=True)


def inject(target: Target, code: str) -> None:
    """Have the main thread of a process run Python code, in a namespace of its own.

    Parameters
    ----------
    code
        Statements that raise nothing.

    Raises
    ------
    ConfigError
        The process may not be debugged, or has ended.
    """
    text = f"exec({code!r}, {{}})".encode() + b"\0"
    add, run = target.address("Py_AddPendingCall"), target.address("PyRun_SimpleString")
    memory_map = target.address("mmap", "libc") or target.address("mmap", "ld-musl")
    if not (add and run and memory_map):
        raise ConfigError(
            f"process {target.pid}: its Python exports no functions; start it by 'chimbuko run'"
        )
    try:
        with _held(target.pid):
            place = _call(target.pid, memory_map, 0, len(text), _PROTECTION, _PRIVATE, -1, 0)
            with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
                memory.seek(place)
                memory.write(text)
            if _call(target.pid, add, run, place) & 0xFFFFFFFF:
                raise ConfigError(f"process {target.pid} has too many calls to make already; try again")
    except OSError as error:
        raise ConfigError(f"process {target.pid}: {refusal(error)}") from error


@contextmanager
def _held(pid: int) -> Iterator[None]:
    """Hold the main thread of a process."""
    _ptrace(SEIZE, pid)
    try:
        _ptrace(INTERRUPT, pid)
        _await_stop(pid, time.monotonic() + LONGEST_S)
        yield
    finally:
        _ptrace(DETACH, pid)


def _call(pid: int, function: int, *arguments: int) -> int:
    """Call a function in the thread, which is held; return what it returns.

    Raises
    ------
    OSError
        It does not return, as the thread had been stopped within it or its like.
    """
    for _ in range(TRIES):
        before = _registers(pid)
        called = Registers.from_buffer_copy(before)
        # As behind a call instruction: 8 bytes from a multiple of 16.
        called.rsp = ((before.rsp - RED_ZONE) & ~0xF) - 8
        called.rip, called.rax = function, 0
        # Else the kernel would begin a system call anew that was interrupted.
        called.orig_rax = (1 << 64) - 1
        for name, value in zip(("rdi", "rsi", "rdx", "rcx", "r8", "r9"), arguments, strict=False):
            setattr(called, name, value & (1 << 64) - 1)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(called.rsp)
            memory.write(bytes(8))
        _set(pid, called)
        try:
            has_returned = _await_return(pid)
            returned = int(_registers(pid).rax)
        finally:
            _set(pid, before)
        if has_returned:
            return returned
        # It goes on for a moment, out of what it was in.
        _ptrace(CONT, pid)
        time.sleep(0.01)
        _ptrace(INTERRUPT, pid)
        _await_stop(pid, time.monotonic() + LONGEST_S)
    raise TimeoutError(0, "its main thread is busy")


def _await_return(pid: int) -> bool:
    """Let the thread go on until it returns to address 0; return whether it did so in time."""
    latest = time.monotonic() + LONGEST_S
    passed_on = 0
    while True:
        _ptrace(CONT, pid, passed_on)
        try:
            number = _await_stop(pid, latest)
        except TimeoutError:
            _ptrace(INTERRUPT, pid)
            _await_stop(pid, time.monotonic() + LONGEST_S)
            return False
        if number == signal.SIGSEGV and _registers(pid).rip == 0:
            return True
        passed_on = 0 if number == signal.SIGTRAP else number


def _await_stop(pid: int, latest: float) -> int:
    """Wait until the thread stops; return the signal at which it did."""
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | 0x40000000)
        if found:
            break
        if time.monotonic() > latest:
            raise TimeoutError(0, "its main thread does not stop")
        time.sleep(0.0002)
    if not os.WIFSTOPPED(status):
        raise ProcessLookupError(0, "it has ended")
    return os.WSTOPSIG(status)


def _registers(pid: int) -> Any:
    registers = Registers()
    _ptrace(GETREGS, pid, ctypes.addressof(registers))
    return registers


def _set(pid: int, registers: Registers) -> None:
    _ptrace(SETREGS, pid, ctypes.addressof(registers))


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    arguments = (ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(0), ctypes.c_void_p(data))
    if _libc.ptrace(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
