"""``chimbuko cc``: compile a program so that its annotated functions are recorded."""

from __future__ import annotations

import sys

import click

from chimbuko.instrument.weaver.compiling import run


@click.command(
    "cc",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Compile C or C++ so that annotated functions are recorded.",
)
@click.argument("command_line", metavar="[--] COMPILER...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(command_line: tuple[str, ...]) -> None:
    """Run COMPILER with its arguments, so that annotated functions are recorded.

    Annotated are functions with PerfFlowAspect's attribute,
    __attribute__((annotate("@critical_path(pointcut='around')"))). The program is as before, but for these,
    and records them where it runs under 'chimbuko trace'. Sources without any are compiled as without us.

    \b
    Examples:
      chimbuko cc mpicxx -O2 app.cpp -o app
      make CXX='chimbuko cc g++'
      cmake -DCMAKE_CXX_COMPILER_LAUNCHER='chimbuko;cc' ...
    """
    sys.exit(run(command_line))
