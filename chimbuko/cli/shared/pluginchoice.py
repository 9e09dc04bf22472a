"""Choice of a name of our own or of a plugin, as the type of an option."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from chimbuko.core.plugins import declared


class PluginChoice(click.Choice[str]):
    """Choice among names of our own, which help lists, and those of the plugins of a kind.

    Plugins are looked for only where the name is none of ours.
    """

    def __init__(self, names: Iterable[str], kind: str) -> None:
        super().__init__(list(names))
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, as ``click.Choice`` does."""
        if value not in self.choices and value in declared(self._kind):
            return str(value)
        return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the message, which names plugins too."""
        names = [*self.choices, *declared(self._kind)]
        return f"{value!r} is not one of {', '.join(map(repr, names))}."
