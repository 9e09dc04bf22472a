"""The public surface: what programs and scripts of others may rely on, one thing a line.

Run: python -m docs.publicsurface     writes docs/reference/surface.txt anew

A line that is gone, or reads otherwise, breaks somebody; a new one does not. docs/reference/policy.md says
what follows from that.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from chimbuko.cli import VERBS, main
from chimbuko.core.plugins import KINDS, group_of
from chimbuko.provenance.export.registry import FORMATS
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import document
from docs import tables

LIST = Path(__file__).resolve().parent / "reference" / "surface.txt"


def lines() -> list[str]:
    """Return the whole surface, in order."""
    return sorted({*_python(), *_commands(), *_http(), *_others()})


def _python() -> Iterator[str]:
    for name, wanted in {**tables.PUBLIC, "chimbuko": ("open",)}.items():
        module = importlib.import_module(name)
        for own in wanted or module.__all__:
            yield from _described(f"python {name}.{own}", getattr(module, own))


def _described(place: str, value: Any) -> Iterator[str]:
    """Yield a name with its parameters, and those of its methods."""
    yield place
    if not callable(value):
        return
    yield from _parameters(place, value)
    if inspect.isclass(value):
        for name, member in inspect.getmembers(value):
            if not name.startswith("_") and name not in dir(BaseException):
                yield f"{place}.{name}"
                if inspect.isfunction(member):
                    yield from _parameters(f"{place}.{name}", member)


def _parameters(place: str, value: Any) -> Iterator[str]:
    """Yield a line for each parameter, and one for those that must be given."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return
    named = [one for one in parameters if one.name not in ("self", "cls")]
    needed = [
        one.name
        for one in named
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    yield f"{place} needs ({', '.join(needed)})"
    yield from (f"{place} takes {one.name}" for one in named)


def _commands() -> Iterator[str]:
    for verb in VERBS:
        command = main.get_command(click.Context(main), verb)
        assert command is not None
        yield from _command(verb, command)


def _command(words: str, command: click.Command) -> Iterator[str]:
    yield f"command chimbuko {words}"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (
                f"command chimbuko {words} {name}" for name in (*parameter.opts, *parameter.secondary_opts)
            )
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(f"{words} {name}", inner)


def _http() -> Iterator[str]:
    for path, methods in document(ENDPOINTS)["paths"].items():
        for method, operation in methods.items():
            yield f"http {method.upper()} {path}"
            yield from (
                f"http {method.upper()} {path} takes {one['name']}" for one in operation["parameters"]
            )


def _others() -> Iterator[str]:
    yield from (f"plugins {group_of(kind)}" for kind in KINDS)
    yield from (f"format {name}" for name in FORMATS)


if __name__ == "__main__":
    LIST.write_text("\n".join(lines()) + "\n")
