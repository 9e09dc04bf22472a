"""Magic of Jupyter and IPython: ``%%chimbuko`` records a cell, and says why calls in it were slow.

Load it by ``%load_ext chimbuko.notebook``.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from chimbuko.core.errors import ServiceError
from chimbuko.instrument.tracer import session
from chimbuko.instrument.tracer.attaching import COOPERATION_VARIABLE, DONE, SETTINGS

RUNS = Path("chimbuko-runs")
LONGEST_S = 60.0
"""Longest wait for the begin of an analysis, in seconds."""


def load_ipython_extension(shell: Any) -> None:
    """Add the magic, as ``%load_ext`` asks for."""
    shell.register_magic_function(
        lambda line, cell: record(shell, line, cell), magic_kind="cell", magic_name="chimbuko"
    )


def record(shell: Any, line: str, cell: str) -> Any:
    """Run a cell recorded; return its run, as ``chimbuko.open`` does, which a notebook shows.

    Parameters
    ----------
    shell
        The IPython in which the cell runs; its names are there, and stay.
    line
        Options of ``chimbuko run``, such as ``-o FOLDER``.

    Raises
    ------
    ServiceError
        The analysis does not begin.
    """
    options = shlex.split(line)
    if not {"-o", "--output"} & set(options):
        options = ["-o", str(RUNS / time.strftime("cell-%Y%m%d-%H%M%S")), *options]
    folder = next(after for word, after in pairwise(options) if word in ("-o", "--output"))
    with tempfile.TemporaryDirectory(prefix="chimbuko-cell-") as place:
        analysis = _begun(options, Path(place))
        session.attach(Path(place, SETTINGS).read_text())
        try:
            shell.run_cell(cell)
        finally:
            session.detach()
            Path(place, DONE).touch()
            said, _ = analysis.communicate()
    if analysis.returncode:
        raise ServiceError(f"the analysis of the cell failed: {said.strip()[-500:]}")
    import chimbuko

    return chimbuko.open(folder)


def _begun(options: list[str], place: Path) -> subprocess.Popen[str]:
    """Start an analysis whose program this process is, and wait until it can be recorded."""
    words = [sys.executable, "-m", "chimbuko", "attach", str(os.getpid()), "--no-dashboard", *options]
    environment = os.environ | {COOPERATION_VARIABLE: str(place)}
    analysis = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    latest = time.monotonic() + LONGEST_S
    while not (place / SETTINGS).exists():
        if analysis.poll() is not None or time.monotonic() > latest:
            analysis.terminate()
            raise ServiceError(f"no analysis of the cell begins: {analysis.communicate()[0].strip()[-500:]}")
        time.sleep(0.02)
    return analysis
