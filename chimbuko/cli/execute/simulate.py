"""``chimbuko simulate``: a made-up run from a description, for demonstrations, tests and training."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import msgspec

from chimbuko.capture.trace.madeup import TRUTH_FILE, MadeUpTrace, read_description
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import number_of

EXAMPLE = """\
program = "heat"
ranks = 4
steps = 400
seed = 1

# What each rank calls in each step, in this order.
[[calls]]
function = "advance"
ms = 20.0                 # the median; [20.0, 40.0] are two modes
spread = 0.05             # standard deviation of the logarithm

[[calls]]
function = "apply_stencil"
inside = "advance"
ms = 5.0
calls = 2

[[calls]]
function = "MPI_Sendrecv()"
kind = "neighbours"       # each rank sends to the next, and receives from the one before
ms = 1.0
bytes = 65536

[[calls]]
function = "MPI_Allreduce()"
kind = "collective"       # all wait for the last one
ms = 0.2
bytes = 8

[[delays]]
function = "apply_stencil"
ms = 80.0
every = 100               # or steps = [40, 90], or share = 0.01
ranks = [2]               # one of these each time

[[delays]]
function = "MPI_Sendrecv()"
cause = "more bytes"      # or "own code", the default, or "garbage collection"
ms = 50.0
steps = [150, 250]
"""


@click.command("simulate", short_help="Make up a run from a description, with known delays.")
@click.argument("description", metavar="[DESCRIPTION]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the trace; a new one."
)
@click.option("--seed", type=int, help="Seed in place of the description's.")
@click.option("--ranks", type=click.IntRange(min=1), help="Number of ranks in place of the description's.")
@click.option("--steps", type=click.IntRange(min=1), help="Number of steps in place of the description's.")
@click.option(
    "--run", "run_dir", type=click.Path(path_type=Path), metavar="RUN", help="Also analyse it, into this run."
)
@click.option("--example", is_flag=True, help="Print a description to begin with.")
def command(
    description: Path | None,
    output: Path | None,
    seed: int | None,
    ranks: int | None,
    steps: int | None,
    run_dir: Path | None,
    example: bool,
) -> None:
    """Write the trace of a run that never was: its functions, messages and delays stand in DESCRIPTION.

    DESCRIPTION is TOML, or JSON in a file named so. The trace has a stream for each rank, as a recorded one;
    truth.txt beside them lists the delays that were made, with their causes. The same description and seed
    give the same trace.

    \b
    Examples:
      chimbuko simulate --example > heat.toml
      chimbuko simulate heat.toml -o made --run runs/made
      chimbuko simulate heat.toml -o live && chimbuko run --replay 'live/*.bp'
    """
    if example:
        click.echo(EXAMPLE, nl=False)
        return
    if description is None or output is None:
        raise ConfigError("give a DESCRIPTION and a folder (-o DIR); --example prints a description")
    given = {"seed": seed, "ranks": ranks, "steps": steps}
    changed = {name: value for name, value in given.items() if value is not None}
    run = msgspec.structs.replace(read_description(description), **changed)
    made = MadeUpTrace(run)
    streams = made.write(output)
    pattern = str(output / "*.bp")
    delays = number_of(len(made.delays), "delays")
    click.echo(f"{number_of(len(streams), 'streams')} in {output}, {delays} in {output / TRUTH_FILE}")
    if run_dir is None:
        click.echo(f"Analyse it: chimbuko run --trace {shlex.quote(pattern)}")
        return
    # Here because it loads the launcher.
    from chimbuko.cli.execute import run as run_verb

    run_verb.command.main(["--trace", pattern, "--output", str(run_dir)], "chimbuko run")
