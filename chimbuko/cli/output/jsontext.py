"""Answers as JSON on standard output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from chimbuko.core.visible import escaped_json


def print_json(value: Any, enc_hook: Callable[[Any], Any] | None = None) -> None:
    """Print a value, indented, on a terminal as in a file.

    Parameters
    ----------
    enc_hook
        Makes something that JSON has of what it has not.
    """
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=enc_hook)).decode()
    click.echo(escaped_json(text))
