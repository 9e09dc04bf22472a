"""Differences between schedulers, as text of a bash script; ``script`` has what they have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheduler:
    """Text of a job script that asks one scheduler for a job, and starts things in it."""

    by: str
    """Sentence that says who runs the script, and where."""
    directives: tuple[str, ...]
    """Lines for the scheduler."""
    job: str
    """Name of the job, to be expanded in double quotes."""
    here: str
    """Name of the services' node, to be expanded in double quotes."""
    submit_host: str
    """Name of the host that the job was submitted from, to be expanded in double quotes; empty if nobody
    knows.
    """
    hosts: str
    """Lines that set whatever ``agents`` and ``ranks`` need."""
    count: str
    """Number of nodes that have ranks, to be expanded in double quotes."""
    agents: str
    """Lines that start ``"${agent[@]}"`` on each of these nodes, and add each process to ``agents``."""
    ranks: str
    """Words that start the ranks."""
    gives_notice: bool = True
    """Whether the scheduler says by itself when the job's time is nearly over; else the script has a clock of
    its own.
    """
    signals: tuple[str, ...] = ("TERM", "INT")
    """Signals that ask the job to end."""
    end: str = 'kill -TERM "$application" 2>/dev/null'
    """Line that asks the program to end; ``$application`` is the process that starts the ranks."""
    folder: str = ""
    """Folder from which the job was submitted, as an expression, if that is not where the script begins."""
