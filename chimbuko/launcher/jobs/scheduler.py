"""What distinguishes schedulers, as text of a bash script; ``script`` has what they have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheduler:
    """How one scheduler's job is asked for, and how things are started in it."""

    by: str
    """Who runs the script, and where."""
    directives: tuple[str, ...]
    """Lines for the scheduler."""
    job: str
    """Name of the job, to be expanded in double quotes."""
    here: str
    """Name of the services' node, likewise."""
    submit_host: str
    """Name of the host that the job was submitted from, likewise; empty where nobody knows."""
    hosts: str
    """Sets whatever ``agents`` and ``ranks`` need."""
    count: str
    """How many nodes have ranks, to be expanded in double quotes."""
    agents: str
    """Starts ``"${agent[@]}"`` on each of them; adds each process to ``agents``."""
    ranks: str
    """Words that start the ranks."""
    gives_notice: bool = True
    """It says by itself when the job's time is nearly over; else the script has a clock of its own."""
    signals: tuple[str, ...] = ("TERM", "INT")
    """That ask the job to end."""
    end: str = 'kill -TERM "$application" 2>/dev/null'
    """Asks the program to end; ``$application`` is what starts the ranks."""
    folder: str = ""
    """Where the job was submitted, as an expression, if that is not where the script begins."""
