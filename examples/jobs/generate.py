"""Writes the job scripts in this folder anew: python -m examples.jobs.generate

They are what ``chimbuko launch`` prints for the commands below, but for the place of ``chimbuko``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PROGRAM = ["tau_exec", "-T", "mpi,pthread", "-adios2_trace", "./app"]
ASKED = ["--time", "2h", "--account", "physics", "--queue", "normal", "--job-name", "heat"]
EXAMPLES = {
    "slurm.sh": ["--slurm", "4", "-n", "160", *ASKED, "--module", "gcc/13", "--module", "openmpi/5.0"],
    "slurm-dedicated.sh": [
        "--slurm",
        "5",
        "-n",
        "160",
        "--dedicated",
        "--cores",
        "0",
        "--bind",
        "ib0",
        *ASKED,
    ],
    "pbs.sh": ["--pbs", "4", "-n", "160", *ASKED, "--module", "cray-mpich"],
    "flux.sh": ["--flux", "4", "-n", "160", *ASKED],
    "lsf.sh": ["--lsf", "4", "-n", "160", *ASKED],
    "hosts.sh": ["--hosts", "node1,node2,node3", "-n", "12"],
}


def text_of(options: list[str]) -> str:
    """The script, with ``chimbuko`` as it is found on the PATH."""
    command = [sys.executable, "-m", "chimbuko", "launch", *options, "--", *PROGRAM]
    script = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^chimbuko=\(.*\)$", "chimbuko=(chimbuko)", script, flags=re.MULTILINE)


if __name__ == "__main__":
    for name, options in EXAMPLES.items():
        path = FOLDER / name
        path.write_text(text_of(options))
        path.chmod(0o755)
