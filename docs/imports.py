"""Lists the real imports between the sub-packages, which the links of the rooms hide from other tools.

Run: python docs/imports.py                prints the table of this tree, which the site has, too
     python docs/imports.py --root FOLDER  prints that of another one

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
OPEN = ("", "core")
"""Packages whose own modules all others may import."""
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


def table_of(root: Path = ROOT) -> str:
    """The table of a tree."""
    known = packages(root)
    return table(known, arrows(known))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree that is looked at")
    print(table_of(parser.parse_args().root))


if __name__ == "__main__":
    main()
