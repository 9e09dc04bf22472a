"""Counts the modules, packages, functions and docstrings of the product.

Run: python docs/counts.py                the counts of this tree
     python docs/counts.py --root FOLDER  those of another one, for a comparison
     python docs/counts.py --riddles      also lists the docstrings that do not stand alone

A docstring stands alone where it does not begin with "Of" or a small letter, holds no ellipsis in its first
paragraph, does not end in a comma or semicolon, has a blank line after a first line that is a sentence, and
does not say that paragraph's sentences again; tests/docs/test_docstrings.py refuses all others.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("chimbuko", "ad", "pserver", "provenance", "viz")
SHORT, LONG = 60, 60
"""Lines under which a module is short, and above which a function is long."""


@dataclass(frozen=True)
class Docstring:
    """Docstring of a module, class, function or attribute."""

    path: Path
    line: int
    text: str

    def faults(self) -> list[str]:
        """Return why it does not stand alone; an empty list if it does."""
        first, _, rest = self.text.partition("\n\n")
        line, _, more = first.partition("\n")
        sentences = [part.strip() for part in " ".join(first.split()).rstrip(".").split(". ")]
        found = {
            "begins with Of": self.text.split()[:1] == ["Of"],
            "begins with a small letter": self.text[:1].islower(),
            "holds an ellipsis": "..." in first or "…" in first,
            "ends in a comma or semicolon": self.text.endswith((",", ";")),
            "has no blank line after its first one": line.endswith(".") and bool(more),
            "says a sentence twice": any(
                f"{one}." in " ".join(rest.split()) for one in sentences if " " in one
            ),
        }
        return [fault for fault, is_there in found.items() if is_there]


def sources(root: Path = ROOT) -> list[Path]:
    """Return the Python files of the product."""
    return sorted(
        path
        for folder in FOLDERS
        # Links are not followed, so each room is seen once; viz/web holds packages of others.
        for path in (root / folder).rglob("*.py")
        if "node_modules" not in path.parts and not any(parent.is_symlink() for parent in path.parents)
    )


def docstrings(path: Path) -> Iterator[Docstring]:
    """Give the docstrings of a file, those of attributes and constants too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for number, statement in enumerate(node.body):
            is_first = number == 0
            if not is_first and not isinstance(node.body[number - 1], ast.Assign | ast.AnnAssign):
                continue
            match statement:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield Docstring(path, statement.lineno, text.strip())


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Give the name and the number of lines of each function of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def counts(paths: Sequence[Path]) -> dict[str, float]:
    """Return the counts by what they are of."""
    modules = [path for path in paths if path.name != "__init__.py"]
    lines = {path: len(path.read_text().splitlines()) for path in paths}
    lengths = sorted(length for path in paths for _, length in functions(path))
    texts = [text for path in paths for text in docstrings(path)]
    return {
        "modules besides __init__": len(modules),
        "packages": len(paths) - len(modules),
        "lines": sum(lines.values()),
        "mean lines of a module": round(statistics.mean(lines[path] for path in modules)),
        f"modules under {SHORT} lines": sum(lines[path] < SHORT for path in modules),
        "functions": len(lengths),
        "median lines of a function": statistics.median(lengths),
        f"functions over {LONG} lines": sum(length > LONG for length in lengths),
        "docstrings": len(texts),
        "docstrings that do not stand alone": sum(bool(text.faults()) for text in texts),
        "docstrings that begin with What": sum(text.text.split()[:1] == ["What"] for text in texts),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree that is counted")
    parser.add_argument("--riddles", action="store_true", help="list docstrings that do not stand alone")
    options = parser.parse_args()
    paths = sources(options.root)
    for what, count in counts(paths).items():
        print(f"{count:10,}  {what}")
    if options.riddles:
        for text in (text for path in paths for text in docstrings(path)):
            if faults := text.faults():
                place = text.path.relative_to(options.root)
                print(f"{place}:{text.line}: {', '.join(faults)}: {text.text.splitlines()[0]}")


if __name__ == "__main__":
    main()
