"""Measures everything anew and writes the tables of docs/performance.md.

Run: python benchmarks/report.py [--only SECTION ...] [--quick]        (make performance)

Takes a quarter of an hour on a machine that has nothing else to do; each section is one benchmark, run in
a process of its own. With --quick the figures are printed and the document stays as it is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"

SECTIONS = {
    "kernel": "kernel.py",
    "agent": "agent.py --stages",
    "agent-few-anomalies": "agent.py --stages --outliers 0.0001 --rows-per-step 100000 200000",
    "agent-hard": "agent.py --stages --hard --rows 3000000 --rows-per-step 100000",
    "latency": "latency.py",
    "memory": "memory.py --ranks 1 8 32 --rows-per-step 20000",
    "memory-large-steps": "memory.py --ranks 1 8 --rows-per-step 200000",
    "startup": "startup.py",
}
"""Where in the document, and the benchmark with its arguments."""

QUICKLY = {
    "kernel.py": "--quick --rounds 3",
    "agent.py": "--rounds 1 --rows 1000000",
    "latency.py": "--steps 20",
    "memory.py": "--steps 5",
    "startup.py": "--rounds 2",
}


def measured(command: str, quickly: bool) -> str:
    """What a benchmark prints."""
    script, *arguments = command.split()
    if quickly:
        arguments += QUICKLY[script].split()
    path = Path(__file__).with_name(script)
    done = subprocess.run([sys.executable, str(path), *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} ended with code {done.returncode}")
    # In Markdown a table needs an empty line before it.
    return re.sub(r"^(?!\|)(.+)\n\|", r"\1\n\n|", done.stdout.strip(), flags=re.MULTILINE)


def replaced(document: str, section: str, text: str) -> str:
    """The document with ``text`` between the markers of a section.

    Raises
    ------
    ValueError
        It has no such markers.
    """
    begin, end = f"<!-- {section}: measured -->\n", f"<!-- {section}: end -->"
    before, found, rest = document.partition(begin)
    _, also_found, after = rest.partition(end)
    if not found or not also_found:
        raise ValueError(f"{DOCUMENT.name} has no markers of {section!r}")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--quick", action="store_true", help="in two minutes, only to see that all works")
    options = parser.parse_args()
    for section in options.only:
        print(f"{section}: {SECTIONS[section]}", file=sys.stderr)
        text = measured(SECTIONS[section], options.quick)
        if options.quick:
            print(text, end="\n\n", flush=True)
        else:
            DOCUMENT.write_text(replaced(DOCUMENT.read_text(), section, text))


if __name__ == "__main__":
    main()
