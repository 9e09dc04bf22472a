"""Whether applications that stream over SST can be shielded here against readers that die."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from chimbuko.capture.trace.discovery import SST
from chimbuko.capture.trace.shield import ADVICE, WHAT, shield_environment, shield_problems, shield_states
from chimbuko.capture.trace.tausettings import SAFE_SST_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.errors import ConfigError
from chimbuko.core.traceschema import StreamNames
from chimbuko.launcher.nodecheck import Finding
from chimbuko.runtime.preload import find_compiler

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
                [sys.executable, "-c", write], env=environment, capture_output=True, timeout=STREAM_TIMEOUT_S
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
    """A stream of one step that nobody reads."""
    names = StreamNames(timers={0: "main"}, event_types={0: "ENTRY", 1: "EXIT"})
    events = np.array([[0, 0, 0, 0, 0, 1]], np.uint64)
    path = Path(folder) / "tau-metrics-doctor-0.bp"
    with StreamWriter(path, SST, SAFE_SST_PARAMETERS) as writer:
        writer.write_step(events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), names)
