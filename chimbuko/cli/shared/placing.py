"""The option that follows the advice of an earlier run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chimbuko.core.names import visible


def advised_option(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--advised RUN``: what an earlier run advises becomes the default of these options.

    Parameters
    ----------
    names
        Of ``agents``, ``cores``, ``period`` and ``transport``.
    """

    def follow(context: click.Context, parameter: click.Parameter, run: Path | None) -> None:
        if run is None:
            return
        # Here because it loads the store.
        from chimbuko.provenance.query.placing import advices
        from chimbuko.runtime.runs.directory import RunDirectory

        (advice,) = advices(RunDirectory(run), 1)
        advice.check_certain()
        found = {
            "agents": advice.agents,
            "cores": advice.cores,
            "period": f"{advice.period_s:g}",
            "transport": advice.transport,
        }
        context.default_map = {**(context.default_map or {}), **{name: found[name] for name in names}}
        words = [f"--{name} {found[name]}" for name in names if found[name] != ""]
        click.echo(f"chimbuko: as {visible(str(run))} advises: {' '.join(words)}", err=True)

    return click.option(
        "--advised",
        type=click.Path(path_type=Path),
        metavar="RUN",
        is_eager=True,
        expose_value=False,
        callback=follow,
        help=f"Take {', '.join(f'--{name}' for name in names)} as RUN advises ('chimbuko model agents RUN'); "
        "options given here win.",
    )
