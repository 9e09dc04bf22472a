"""Measures everything anew and writes the tables of a document: performance.md in docs/internals/, or others.

Run: python benchmarks/report.py [--only SECTION ...] [--quick]        (make performance)
     python benchmarks/report.py --document dashboard-performance      (make benchmark-dashboard)
     python benchmarks/report.py --document annotations
     python benchmarks/report.py --document insitu
     python benchmarks/report.py --document other-traces
     python benchmarks/report.py --document scaling
     python benchmarks/report.py --document transports                 (make benchmark-transports)

Takes a quarter of an hour on a machine that has nothing else to do, of the dashboard three quarters, of the
transports half an hour; each section is one benchmark, run in a process of its own. Those of scaling are made
of what ``python -m benchmarks.scaling --measure`` has kept, that of insitu of ``python -m benchmarks.placing
--keep``. With --quick the figures are printed and the document stays as it is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

DOCUMENTS = {
    "performance": {
        "whole": "-m benchmarks.whole --only offline compiling",
        "whole-live": "-m benchmarks.whole --only live",
        "kernel": "benchmarks/kernel.py",
        "agent": "benchmarks/agent.py --rows-per-step 10000 100000 500000",
        "agent-hard": "benchmarks/agent.py --hard --rows 3000000 --rows-per-step 100000",
        "latency": "benchmarks/latency.py",
        "overhead": "-m benchmarks.overhead",
        "memory": "benchmarks/memory.py --ranks 1 8 32 --rows-per-step 20000",
        "recorder": "-m benchmarks.recorder",
        "server": "-m benchmarks.server",
        "server-memory": "-m benchmarks.server.memory",
    },
    "dashboard-performance": {
        name: f"-m benchmarks.dashboard --only {name}"
        for name in ("paint", "stream", "memory", "delay", "timeline", "crowd")
    },
    "many-nodes": {
        "service-node": "-m benchmarks.server.node",
        "server-parts": "-m benchmarks.server.parts",
    },
    "insitu": {"placing": "-m benchmarks.placing --kept"},
    "annotations": {
        "annotated-calls": "-m benchmarks.annotations",
        "annotated-runs": "-m benchmarks.annotatedrun",
    },
    "other-traces": {
        "conversion-flags": "-m benchmarks.conversion --only flags",
        "conversion-reading": "-m benchmarks.conversion --only reading --megabytes 30 100",
    },
    "scaling": {
        name: f"-m benchmarks.scaling --only {name}"
        for name in ("units", "validation", "plan", "bottlenecks", "sharded", "application", "paper")
    },
    "transports": {
        name: f"-m benchmarks.transports --only {name}" for name in ("metadata", "kills", "cost", "follow")
    },
}
"""Name of a document to its sections: where in it, and the benchmark with its arguments."""

QUICKLY = {
    "benchmarks/kernel.py": "--quick --rounds 3",
    "benchmarks/agent.py": "--rounds 1 --rows 1000000",
    "benchmarks/latency.py": "--steps 20",
    "benchmarks/memory.py": "--steps 5",
    "benchmarks.annotatedrun": "--rounds 2 --seconds 1",
    "benchmarks.annotations": "--rounds 1",
    "benchmarks.conversion": "--megabytes 10 20",
    "benchmarks.dashboard": "--part 0.01 --rounds 1 --minutes 2",
    "benchmarks.transports": "--rounds 2",
    "benchmarks.whole": "--rounds 1",
    "benchmarks.overhead": "--rounds 2",
    "benchmarks.placing": "",
    "benchmarks.recorder": "--rounds 1",
    "benchmarks.scaling": "",
    "benchmarks.server": "--seconds 5",
    "benchmarks.server.memory": "--minutes 5",
    "benchmarks.server.parts": "--seconds 4 --rounds 1",
    "benchmarks.server.node": "--nodes 10 --seconds 20",
}


def document_of(name: str) -> Path:
    """The file of a document, in whichever part of the documents it stands."""
    [found] = DOCS.glob(f"*/{name}.md")
    return found


def program_of(command: str) -> str:
    """The script or the module that a command runs."""
    return command.removeprefix("-m ").split()[0]


def measured(command: str, quickly: bool) -> str:
    """What a benchmark prints."""
    arguments = command.split()
    if quickly:
        arguments += QUICKLY[program_of(command)].split()
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
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
        raise ValueError(f"the document has no markers of {section!r}")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--document", choices=DOCUMENTS, default=next(iter(DOCUMENTS)))
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="of the document; default: all")
    parser.add_argument("--quick", action="store_true", help="in two minutes, only to see that all works")
    options = parser.parse_args()
    path, sections = document_of(options.document), DOCUMENTS[options.document]
    for section in options.only or sections:
        if section not in sections:
            parser.error(f"{section}: no section of {path.name}; it has {', '.join(sections)}")
        print(f"{section}: {sections[section]}", file=sys.stderr)
        text = measured(sections[section], options.quick)
        if options.quick:
            print(text, end="\n\n", flush=True)
        else:
            path.write_text(replaced(path.read_text(), section, text))


if __name__ == "__main__":
    main()
