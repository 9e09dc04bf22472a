"""Parts of the reference that follow from the code: command line, settings, metrics, HTTP API, imports.

Run: python docs/tables.py NAME    prints one of them

A document has the place of such a part as a comment, such as ``<!-- generated: verbs -->``; ``docs/conf.py``
fills it in when the site is built, so nothing that is generated is kept in the repository.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from chimbuko.cli import SECTIONS, main
from chimbuko.core import config
from chimbuko.core.config import AnalysisConfig
from chimbuko.pserver import prometheus
from chimbuko.pserver.metrics import FIELDS
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import document
from docs import imports

PLACE = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
PUBLIC = {
    "chimbuko.provenance.export.frames": ("Run",),
    "chimbuko.launcher.library": ("run",),
    "chimbuko.launcher.options": ("RunOptions", "AnalysisOptions", "TransportOptions"),
    "chimbuko.launcher.services.choices": ("ServiceChoices", "AlertOptions"),
    "chimbuko.tracer": (),
    "chimbuko.annotations": (),
    "chimbuko.namespaces": (),
    "chimbuko.observe.namespaces.client.client": ("Namespace",),
    "chimbuko.workflow": (),
    "chimbuko.errors": (),
    "chimbuko.plugins": (),
}
"""Modules with the names of theirs that users meet; where none is given, all that they make public."""
_REPOSITORY = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?!(?:start|howto|reference|internals|images)/)[^)]+)\)")


def verbs() -> str:
    """Return usage, description and options of each verb."""
    return "\n\n".join(
        f"## {heading}\n\n" + "\n\n".join(_command(command, words) for words, command in _under(names))
        for heading, names in SECTIONS.items()
    )


def _under(names: Mapping[str, str]) -> Iterator[tuple[str, click.Command]]:
    """Yield each verb, and behind it its own verbs, each with its words."""
    for name in names:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for verb in command.list_commands(context):
                if (inner := command.get_command(context, verb)) is not None:
                    yield f"{name} {verb}", inner


def _command(command: click.Command, words: str) -> str:
    context = click.Context(command, info_name=f"chimbuko {words}")
    text, _, examples = (command.help or "").partition("Examples:")
    parts = [f"### `chimbuko {words}`", f"```text\n{_usage(command, context)}\n```"]
    parts += [_escaped(" ".join(paragraph.split())) for paragraph in text.replace("\b", "").split("\n\n")]
    if examples.strip():
        lines = "\n".join(line.strip() for line in examples.strip().splitlines() if line.strip())
        parts.append(f"```sh\n{lines}\n```")
    records = [one.get_help_record(context) for one in command.get_params(context)]
    options = [record for record in records if record and record[0] != "-h, --help"]
    if options:
        parts.append(_table(("option", "meaning"), [(f"`{name}`", _escaped(said)) for name, said in options]))
    return "\n\n".join(part for part in parts if part)


def _usage(command: click.Command, context: click.Context) -> str:
    pieces = command.collect_usage_pieces(context)
    return " ".join([context.info_name or "", *pieces])


def settings() -> str:
    """Return the settings that a file of ``--config`` may hold, with their defaults."""
    defaults = AnalysisConfig()
    texts = _texts_of_fields(Path(config.__file__), "AnalysisConfig")
    rows = [
        (f"`{name}`", f"`{getattr(defaults, name)!r}`", _escaped(texts.get(name, "")))
        for name in AnalysisConfig.__struct_fields__
    ]
    return _table(("setting", "default", "meaning"), rows)


def _texts_of_fields(path: Path, name: str) -> dict[str, str]:
    """Return the docstrings of a class's fields, each as one line."""
    tree = ast.parse(path.read_text())
    [found] = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    texts = {}
    for field, after in zip(found.body, found.body[1:], strict=False):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=of)), ast.Expr(value=ast.Constant(value=str() as text)):
                texts[of] = " ".join(text.replace("``", "`").split())
    return texts


def metrics() -> str:
    """Return the metrics that Prometheus is given, as their declarations say."""
    rows = [(f"`chimbuko_{name}_total`", text) for name, text in FIELDS.items()]
    for node in ast.walk(ast.parse(Path(prometheus.__file__).read_text())):
        match node:
            case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=str() as name), text, *_]):
                ending = "_total" if kind.startswith("Counter") else ""
                rows.append((f"`{name}{ending}`", _said(text)))
    return _table(("metric", "meaning"), rows)


def _said(node: ast.expr) -> str:
    """Return a text of the source; what a formatted one fills in stands as N."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_said(part) if isinstance(part, ast.Constant) else "N" for part in parts)
    return ""


def endpoints() -> str:
    """Return each address of the HTTP API with what it answers and its parameters."""
    described = document(ENDPOINTS)
    return "\n\n".join(
        _endpoint(path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    )


def _endpoint(path: str, method: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### `{method.upper()} {path}`", _escaped(operation["summary"])]
    described = [(one["name"], one.get("description", "")) for one in operation.get("parameters", ())]
    if "requestBody" in operation:
        fields = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
        described += [(name, field.get("description", "")) for name, field in fields.items()]
    if rows := [(f"`{name}`", _escaped(text)) for name, text in described]:
        parts.append(_table(("parameter", "meaning"), rows))
    return "\n\n".join(parts)


def packages() -> str:
    """Return the table of all sub-packages with what each may import."""
    return imports.table_of()


def python() -> str:
    """Return instructions for Sphinx that write the public names of the modules."""
    modules = (
        f".. automodule:: {module}\n   :members: {', '.join(names)}\n   :imported-members:\n"
        for module, names in PUBLIC.items()
    )
    return "```{eval-rst}\n.. autofunction:: chimbuko.open\n\n" + "\n".join(modules) + "```"


PARTS: dict[str, Callable[[], str]] = {
    one.__name__: one for one in (verbs, settings, metrics, endpoints, packages, python)
}
"""All parts by the names that documents have for them."""


def filled(text: str) -> str:
    """Return a document with all generated parts, and without links that lead out of the site."""
    text = PLACE.sub(lambda place: PARTS[place[1]](), text)
    return _REPOSITORY.sub(r"\1 (`\2` in the repository)", text)


def contents(index: str) -> str:
    """Return the first page with contents for Sphinx: the pages that each of its parts links to."""
    made = []
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading = part.partition("\n")[0]
        pages = re.findall(r"\]\(((?:\w+/)?[\w-]+)\.md\)", part)
        lines = ["```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```"]
        made.append("\n".join(lines))
    return "\n\n".join([index, *made])


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def _escaped(text: str) -> str:
    """Return plain text such that Markdown shows it as it is, but for what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\\])", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", choices=PARTS)
    print(PARTS[parser.parse_args().name]())
