"""Files, modules and names in the documents for developers are those of the tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.places import ROOT

DOCUMENTS = ("CONTRIBUTING.md", "docs/internals/architecture.md")
OF_OTHERS = {"node_modules", ".venv", ".git", "__pycache__"}
MADE_OR_FOREIGN = {"mpi.h", "md.idx", "run.json"}
"""Files that stand in no tree."""
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|/[\w.-]+|\.(?:py|ts|tsx|c|h|css|md|toml))")
MODULE = re.compile(r"[a-z]\w*(?:\.[a-z]\w*)+")
NAME = re.compile(r"[A-Za-z]*(?:[a-z][A-Z]|_)\w*|[A-Z]{2}\w+|[A-Z]\w+\.\w+")
"""Names of code, such as ``CallChoice``, ``quiet_s``, ``_VIEW``, ``KINDS`` and ``RunBroker.wake``."""
QUOTED = re.compile(r"`([^`]+)`")
JOIN = r"(?:,| and|, and|, or| or)"
IN = re.compile(rf"((?:`[^`]+`{JOIN} )*`[^`]+`) in `([^` ]+)`")
"""Some names, and the file or folder in which they are."""
THERE = re.compile(rf"((?:`[^`]+`{JOIN} )*`[^`]+`) there\b")


@cache
def files() -> frozenset[str]:
    """Files and folders of the tree, by their paths from its root; links are not followed."""
    found = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in OF_OTHERS]
        within = Path(folder).relative_to(ROOT)
        found |= {(within / name).as_posix() for name in (*names, *folders)}
    return frozenset(found)


def known(path: str, folder: str = "") -> list[str]:
    """Files and folders whose paths end so, below a folder whose path ends as is said."""
    wanted = f"/{path.strip('/')}"
    below = f"/{folder.strip('/')}/" if folder else "/"
    return [one for one in files() if f"/{one}".endswith(wanted) and below in f"/{one}"]


def is_module(name: str) -> bool:
    """Whether it is a package, a module, or something in a module."""
    path = name.removeprefix("chimbuko.").replace(".", "/")
    above, _, last = path.rpartition("/")
    return any(known(one) for one in (path, f"{path}.py")) or is_in(last, f"{above}.py")


def is_in(name: str, path: str, folder: str = "") -> bool:
    """Whether a file has a name, or a folder a file that has it, or a file of that name."""
    if PATH.fullmatch(name):
        return bool(known(name, path if not Path(path).suffix else str(Path(path).parent)))
    return any(has_all(tuple(name.split(".")), one) for one in known(path, folder))


@cache
def has_all(words: tuple[str, ...], path: str) -> bool:
    """Whether a file, or one of the files of a folder, has all words."""
    where = ROOT / path
    if where.is_dir():
        return any(has_all(words, one) for one in files() if Path(one).parent.as_posix() == path)
    text = where.read_text(errors="replace")
    return all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)


def passages(document: str) -> Iterator[str]:
    """Rows of tables, points of lists, and paragraphs, each as one line, without code."""
    text = (ROOT / document).read_text()
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for passage in re.split(r"\n\n+|\n(?=\||- |\d+\. )", text):
        yield " ".join(passage.split())


def faults(passage: str) -> Iterator[str]:
    """What a passage names that is not in the tree."""
    for name in QUOTED.findall(passage):
        wanted = name.removeprefix("*/")
        if name in MADE_OR_FOREIGN:
            continue
        if PATH.fullmatch(wanted):
            is_there = bool(known(wanted))
        elif MODULE.fullmatch(name):
            is_there = is_module(name)
        elif name.startswith("make "):
            is_there = f"\n{name.removeprefix('make ')}:" in (ROOT / "Makefile").read_text()
        else:
            is_there = not NAME.fullmatch(name) or all(is_in_sources(word) for word in name.split("."))
        if not is_there:
            yield name
    for names, path in IN.findall(passage):
        if PATH.fullmatch(path):
            yield from (f"{name} in {path}" for name in _bare(names) if not is_in(name, path))
    for found in THERE.finditer(passage):
        names = _bare(found[1])
        before = QUOTED.findall(passage[: found.end()])[: -len(names) or None]
        named = [path for path in before if PATH.fullmatch(path)]
        paths = [path for path in named if "/" in path]
        if not paths:
            yield f"{', '.join(names)} there"
            continue
        folder = paths[-1] if paths[-1].endswith("/") else str(Path(paths[-1]).parent)
        yield from (
            f"{name} below {folder}"
            for name in names
            if not (known(name, folder) if PATH.fullmatch(name) else is_in(name, named[-1], folder))
        )


def _bare(names: str) -> list[str]:
    """Names that do not say themselves where they are."""
    return [name for name in QUOTED.findall(names) if "/" not in name]


@cache
def words() -> frozenset[str]:
    """Words of all sources, those of tests too."""
    sources = (ROOT / one for one in files() if one.endswith((".py", ".ts", ".tsx", ".c", ".h")))
    return frozenset(
        word for path in sources for word in re.findall(r"\w+", path.read_text(errors="replace"))
    )


def is_in_sources(word: str) -> bool:
    return word in words()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_developers_are_sent_to_exists(document: str) -> None:
    found = [*passages(document)]
    assert sum(len(QUOTED.findall(one)) for one in found) > 150
    assert [f"{fault}: {one[:60]}" for one in found for fault in faults(one)] == []
