"""``chimbuko warmup``: compiles all kernels now, so that no run has to."""

from __future__ import annotations

import os
import sys
import time

import click

from chimbuko.core.kernels.library import INSTALLED, is_prepared, only_one, place


@click.command()
def command() -> None:
    """Compile all kernels into a library beside the package.

    A wheel carries that library. Elsewhere install targets call this; it takes half a minute once, and a
    moment afterwards. A run with kernels that are not compiled begins with it. One process compiles, and
    others wait for it.

    Called by who may write the installation it serves all users of that installation; others compile into a
    cache of their own. It takes a C compiler; without one numba compiles into its own cache, and processes
    start more slowly.

    \b
    Example:
      chimbuko warmup
    """
    started = time.monotonic()
    reason = ""
    if not is_prepared():
        reason = _prepare()
    if reason:
        print(f"numba compiled the kernels, as no library can be built: {reason}", file=sys.stderr)
    print(f"kernels are ready ({time.monotonic() - started:.1f} s)", file=sys.stderr)


def _prepare() -> str:
    from chimbuko.launcher.kernels import prepare_kernels

    folder = place()
    if folder == INSTALLED:
        # Who may load the sources may load what is compiled of them.
        os.umask(0o777 & ~INSTALLED.parent.stat().st_mode)
    with only_one(folder):
        return "" if is_prepared() else prepare_kernels(folder)
