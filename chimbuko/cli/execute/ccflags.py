"""``chimbuko cc-flags``: how a program is compiled so that its functions are recorded."""

from __future__ import annotations

import click

from chimbuko.instrument.recorder.library import INCLUDE


@click.command("cc-flags", short_help="Print how to compile a program so that its functions are recorded.")
@click.option(
    "--header", is_flag=True, help="Print only what chimbuko.h needs: the compiler instruments no function."
)
@click.option(
    "--folder", is_flag=True, help="Print the folder of chimbuko.h, chimbuko.pc and the Fortran module."
)
def command(header: bool, folder: bool) -> None:
    """Print flags of gcc and clang with which 'chimbuko trace' sees a program's functions.

    Files and lines of functions come from the debug information (-g). What is compiled so runs as before
    without 'chimbuko trace', a little slower.

    \b
    Examples:
      mpicc -O2 $(chimbuko cc-flags) app.c -o app
      mpicc -O2 $(chimbuko cc-flags --header) app.c -o app
      PKG_CONFIG_PATH=$(chimbuko cc-flags --folder) pkg-config --cflags chimbuko
      D=$(chimbuko cc-flags --folder); mpicc -c $D/chimbuko_fortran.c
      mpif90 chimbuko_fortran.o $D/chimbuko.f90 app.f90 -o app
    """
    flags = [f"-I{INCLUDE}", "-g"]
    if not header:
        flags.append("-finstrument-functions")
    click.echo(str(INCLUDE) if folder else " ".join(flags))
