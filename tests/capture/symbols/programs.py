"""Real programs, and what they say of their functions."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

HERE = Path(__file__).parent
PLACES = {
    "main": f"main [{{{HERE}/traced.cpp}} {{47,0}}]",
    "sum": f"heat::Field::sum(int, double) [{{{HERE}/traced.cpp}} {{40,0}}]",
    "local": f"heat::local(int) [{{{HERE}/traced.cpp}} {{29,0}}]",
}
PLUGIN = {
    "plugin": f"plugin [{{{HERE}/plugin.cpp}} {{7,0}}]",
    "twice": f"int twice<int>(int) [{{{HERE}/plugin.cpp}} {{1,0}}]",
}
Found = TypeVar("Found")


def built(folder: Path, *options: str, source: str = "traced.cpp", name: str = "app") -> Path:
    """A program, or library, as compilers make them by default, with these options besides."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    target = folder / name
    words = [compiler, "-finstrument-functions", "-fPIC", *options, str(HERE / source), "-o", str(target)]
    subprocess.run([*words, "-ldl"], check=True)
    return target


def library(folder: Path, *options: str) -> Path:
    """The plugin, as a shared library."""
    return built(folder, "-shared", "-g", *options, source="plugin.cpp", name="libplug.so")


@dataclass
class Running:
    """A program that has called all its functions, and waits."""

    process: subprocess.Popen[str]
    executable: Path
    addresses: list[tuple[int, str]]
    """Of its functions in order of their first calls, each with its binary."""
    began_us: int

    def metadata(self, rank: int = 0, **others: str) -> dict[tuple[int, int, str], str]:
        """What TAU says of it."""
        import os

        said = {
            "pid": str(self.process.pid),
            "Executable": str(self.executable),
            "Hostname": os.uname().nodename,
            "Starting Timestamp": str(self.began_us),
        }
        return {(rank, 0, key): value for key, value in (said | others).items()}

    def names(self) -> list[str]:
        """What TAU calls its functions."""
        return [f"addr=<{address:x}> [{{{binary}}} {{0,0}}]" for address, binary in self.addresses]


@contextmanager
def running(executable: Path, *libraries: Path) -> Iterator[Running]:
    """Run a program until the end of the block."""
    words = [str(executable), *map(str, libraries)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = []
            while (line := process.stdout.readline()) != "end\n":
                address, _, binary = line.strip().partition(" ")
                found.append((int(address, 16), binary))
            yield Running(process, executable, found, int(time.time() * 1e6))
        finally:
            process.kill()


def drained(steps: Generator[None, None, Found]) -> Found:
    """What a generator returns in the end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Found = end.value
            return result
        time.sleep(0.01)
