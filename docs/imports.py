"""Draws the real imports between the sub-packages, which the links of the rooms hide from other tools.

Run: python docs/imports.py                writes table and picture of docs/internals/architecture.md anew
     python docs/imports.py --root FOLDER  prints both, of another tree

What a sub-package may import stands in its docstring, as a line "May import a, b and c."; the table repeats
it, and tests/chimbuko/test_tree.py holds it. The modules of ``chimbuko/`` and ``chimbuko/core/`` themselves
are open to all.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("ad", "pserver", "provenance", "viz")
DOCUMENT = "docs/internals/architecture.md"
OPEN = ("", "core")
"""Packages whose own modules all others may import."""
BEGIN, END = "<!-- packages: drawn -->\n", "<!-- packages: end -->"
_ALLOWED = re.compile(r"^May import (.+?)\.$", re.MULTILINE | re.DOTALL)
Arrows = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Package:
    """One sub-package."""

    name: str
    """Without ``chimbuko.``; empty for the modules of ``chimbuko/`` itself."""
    summary: str
    allowed: frozenset[str] | None
    """Which sub-packages it may import; None where its docstring does not say."""
    init: Path
    modules: tuple[Path, ...]
    """All others of its files."""


def packages(root: Path = ROOT) -> dict[str, Package]:
    """All sub-packages of a tree by name."""
    found = {}
    for folder in ("chimbuko", *ROOMS):
        # Links are not followed, so each room is seen once.
        for init in sorted((root / folder).rglob("__init__.py")):
            if "node_modules" in init.parts or any(parent.is_symlink() for parent in init.parents):
                continue
            name = ".".join(init.parent.relative_to(root).parts).removeprefix("chimbuko").removeprefix(".")
            text = ast.get_docstring(ast.parse(init.read_text())) or ""
            modules = tuple(path for path in sorted(_modules_below(init.parent)) if path != init)
            found[name] = Package(name, _summary(text), _allowed(text), init, modules)
    return found


def _summary(text: str) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join(text.partition("\n\n")[0].split())


def _modules_below(package: Path) -> Iterator[Path]:
    """The modules of a package, with those of its folders that are no packages themselves."""
    yield from package.glob("*.py")
    for folder in package.iterdir():
        is_package = not folder.is_dir() or (folder / "__init__.py").exists()
        if not (is_package or folder.is_symlink() or folder.name == "web"):
            yield from _modules_below(folder)


def _allowed(text: str) -> frozenset[str] | None:
    line = _ALLOWED.search(text)
    if line is None:
        return None
    names = re.split(r",\s+|\s+and\s+", line[1])
    return frozenset() if names == ["nothing of ours"] else frozenset(names)


def arrows(known: Mapping[str, Package]) -> dict[str, frozenset[str]]:
    """Which sub-packages each one imports, those that are open to all left out."""
    return {
        name: frozenset(_imported(package, known) - {name, *OPEN}) for name, package in known.items() if name
    }


def _imported(package: Package, known: Mapping[str, Package]) -> set[str]:
    return {
        _package_of(target, known)
        for path in (package.init, *package.modules)
        for target in targets(path)
        if target.startswith("chimbuko.")
    }


@cache
def targets(path: Path) -> tuple[str, ...]:
    """What a module imports, each name with the module that it comes from."""
    return tuple(_imports_in(path.read_text()))


def _imports_in(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _package_of(target: str, known: Mapping[str, Package]) -> str:
    """The innermost package of a dotted name, which may end in a module and a name in it."""
    parts = target.split(".")[1:]
    while parts and ".".join(parts) not in known:
        parts.pop()
    return ".".join(parts)


def reduced(of: Arrows) -> dict[str, frozenset[str]]:
    """Only arrows that do not follow from others: those along which one gets there by no other way."""
    beyond = {name: reachable(name, of) for name in of}
    return {
        name: frozenset(to for to in targets if not any(to in beyond[other] for other in targets - {to}))
        for name, targets in of.items()
    }


def reachable(start: str, of: Arrows) -> set[str]:
    """All that one gets to from a sub-package, along any number of arrows."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = of.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return found


def table(known: Mapping[str, Package], of: Arrows) -> str:
    """The table of the sub-packages: how many modules, what lives there, what it may import."""
    lines = ["| sub-package | modules | what lives there | may import |", "|---|---:|---|---|"]
    for name, targets in of.items():
        package = known[name]
        if not (package.modules or targets):
            continue
        allowed = sorted(targets if package.allowed is None else package.allowed)
        names = ", ".join(f"`{one}`" for one in allowed)
        lines.append(f"| `{name}` | {len(package.modules)} | {package.summary} | {names} |")
    return "\n".join(lines)


def picture(known: Mapping[str, Package], of: Arrows) -> str:
    """The imports as a Mermaid diagram; arrows that follow from others are left out."""
    of = {name: targets for name, targets in of.items() if targets or known[name].modules}
    lines = ["```mermaid", "flowchart TD"]
    for room in ("chimbuko", *ROOMS):
        inside = [name for name in of if _room_of(name) == room]
        lines += [f"  subgraph {room}", *(f"    {_node(name)}[{name}]" for name in inside), "  end"]
    for name, targets in reduced(of).items():
        lines += [f"  {_node(name)} --> {_node(target)}" for target in sorted(targets)]
    return "\n".join([*lines, "```"])


def _room_of(name: str) -> str:
    first = name.split(".")[0]
    return first if first in ROOMS else "chimbuko"


def _node(name: str) -> str:
    # A room's own name is that of its frame.
    return name.replace(".", "_") + "_"


def both(root: Path = ROOT) -> str:
    """Table and picture of a tree."""
    known = packages(root)
    of = arrows(known)
    return f"{table(known, of)}\n\n{picture(known, of)}"


def drawn(document: str) -> str:
    """The document with table and picture as they are now."""
    before, _, rest = document.partition(BEGIN)
    return f"{before}{BEGIN}\n{both()}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, help="another tree, which is only looked at")
    options = parser.parse_args()
    if options.root:
        print(both(options.root))
        return
    path = ROOT / DOCUMENT
    path.write_text(drawn(path.read_text()))


if __name__ == "__main__":
    main()
