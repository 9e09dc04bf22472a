"""What the documents say exists, exists."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from chimbuko.cli import VERBS, main
from chimbuko.core.errors import ChimbukoError
from tests.places import ROOT

AT_THE_ROOT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
DOCUMENTS = [*(ROOT / name for name in AT_THE_ROOT), *sorted((ROOT / "docs").rglob("*.md"))]


def command(verb: str) -> click.Command:
    found = main.get_command(click.Context(main), verb)
    assert found is not None, f"no verb {verb!r}"
    return found


def subcommands(verb: str) -> Mapping[str, click.Command]:
    found = command(verb)
    if not isinstance(found, click.Group):
        return {}
    context = click.Context(found)
    names = found.list_commands(context)
    return {name: one for name in names if (one := found.get_command(context, name)) is not None}


def options(verb: str, subcommand: str = "") -> set[str]:
    found = subcommands(verb).get(subcommand, command(verb))
    parameters = [parameter for parameter in found.params if isinstance(parameter, click.Option)]
    return {name for option in parameters for name in (*option.opts, *option.secondary_opts)} | {
        "--help",
        "-h",
    }


def documented_commands() -> Iterator[tuple[str, str]]:
    """Name of the document and command line of each command that the documents show."""
    for document in DOCUMENTS:
        text = document.read_text()
        lines = re.findall(r"^(?:\$ )?(chimbuko [^#\n]*)", text, re.MULTILINE) + re.findall(
            r"`(chimbuko [^`]*)`", text
        )
        yield from ((document.name, line.strip()) for line in lines)


def unknown_word(line: str) -> str | None:
    """First word of a command line that is neither a verb of ours nor one of its options."""
    words = shlex.split(line.replace("…", "PROGRAM"))[1:]
    own = words[: words.index("--")] if "--" in words else words
    if own[0] not in VERBS:
        return own[0]
    if own[0] in ("trace", "cc"):
        own = own[:2]
    # From a script on, words are the program's.
    own = [*itertools.takewhile(lambda word: not word.endswith(".py"), own)]
    known = options(*own[:2])
    return next((word for word in own[1:] if word.startswith("-") and word not in known), None)


def test_documented_commands_exist() -> None:
    commands = [*documented_commands()]
    assert len(commands) > 100
    wrong = [f"{document}: {word} in {line}" for document, line in commands if (word := unknown_word(line))]
    assert not wrong, "\n".join(wrong)


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    kinds: tuple[type[ChimbukoError], ...] = (ChimbukoError, *ChimbukoError.__subclasses__())
    codes = {kind.exit_code for kind in kinds}
    for code in codes:
        assert f"| {code} |" in text


def test_help_has_examples() -> None:
    texts = {verb: command(verb) for verb in VERBS} | {
        f"{verb} {name}": found for verb in VERBS for name, found in subcommands(verb).items()
    }
    helps = {words: found.get_help(click.Context(found, info_name=words)) for words, found in texts.items()}
    assert [
        words for words, text in helps.items() if "Example" not in text or f"chimbuko {words}" not in text
    ] == []


def test_documents_begin_with_their_titles() -> None:
    assert [path.name for path in DOCUMENTS if not path.read_text().startswith("# ")] == []


def test_links_lead_somewhere() -> None:
    links = [
        (document, target)
        for document in DOCUMENTS
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", document.read_text())
    ]
    assert len(links) > 50
    assert [
        f"{document.name}: {target}" for document, target in links if not leads_somewhere(document, target)
    ] == []


def leads_somewhere(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = document.parent / path if path else document
    return found.exists() and (not anchor or found.suffix != ".md" or anchor in anchors(found))


def anchors(document: Path) -> set[str]:
    """Of a document's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    heads = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", head) for head in found]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_extra_is_named_where_installing_is_described() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (ROOT / "docs" / "start" / "install.md").read_text()
    assert [extra for extra in extras if extra not in ("dev", "docs") and f"`{extra}`" not in text] == []


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
