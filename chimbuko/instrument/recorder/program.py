"""Detection of what can be recorded of a program, by its file."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

ELF_MAGIC = b"\x7fELF"
PYTHON_SUFFIXES = (".py", ".pyw", ".pyz")


@dataclass(frozen=True)
class NativeProgram:
    """Program that is not a Python script."""

    path: Path
    obstacle: str
    """Why no library can be preloaded into the program, and what to do about it; empty where it can."""
    is_elf: bool
    """Whether the program is a binary, and not a script that starts others."""


def native_program(path: Path) -> NativeProgram | None:
    """Return the program of a file; None for one that Python runs."""
    try:
        with open(path, "rb") as file:
            first_line = file.readline(256)
    except OSError:
        return None
    if first_line.startswith(ELF_MAGIC):
        return NativeProgram(path, _obstacle(path), is_elf=True)
    is_script = first_line.startswith(b"#!") and os.access(path, os.X_OK)
    if is_script and b"python" not in first_line and path.suffix not in PYTHON_SUFFIXES:
        return NativeProgram(path, "", is_elf=False)
    return None


def _obstacle(path: Path) -> str:
    mode = path.stat().st_mode
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "it is set-user-ID or set-group-ID, and the system preloads nothing into such a program"
    with suppress(ELFError, OSError), open(path, "rb") as file:
        segments = {segment["p_type"] for segment in ELFFile(file).iter_segments()}
        if "PT_INTERP" not in segments:
            return "it is linked statically; link it dynamically"
    return ""
