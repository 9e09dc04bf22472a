"""``chimbuko warmup``: compiles all kernels now, so that no run has to."""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import suppress

import click

from chimbuko.core.kernels.cache import INSTALLED, are_compiled, note_compiled, only_one, use_cache


@click.command()
def command() -> None:
    """Compile all kernels into the cache beside the package.

    Install targets call it; it takes half a minute once, and a moment afterwards. A run with kernels that are
    not compiled begins with it. One process compiles, and others wait for it.

    Called by who may write the installation, on each kind of CPU, it serves all users of that
    installation; others compile into a cache of their own.

    \b
    Example:
      chimbuko warmup
    """
    started = time.monotonic()
    cache = use_cache()
    if cache == INSTALLED:
        # Who may load the sources may load what is compiled of them.
        os.umask(0o777 & ~INSTALLED.parent.stat().st_mode)
    with only_one(cache):
        if not are_compiled(cache):
            compile_kernels()
            # Without the note the next one finds them compiled, which takes it seconds.
            with suppress(OSError):
                note_compiled(cache, folders_of_kernels())
    print(f"kernels are ready ({time.monotonic() - started:.1f} s)", file=sys.stderr)


def compile_kernels() -> None:
    """Compile all kernels, or load those that are compiled."""
    from numba.core.registry import cpu_target

    from chimbuko.ad.streamprocess.kernelwarmup import warm_kernels
    from chimbuko.capture.formats.readers.jsontext import warm_kernels as warm_text_kernels
    from chimbuko.provenance.store.encode import warm_kernels as warm_store_kernels
    from chimbuko.pserver.kernelwarmup import warm_kernels as warm_server_kernels

    # Compiling makes millions of objects, few of them in cycles: looking for those took 9 % of its time.
    gc.set_threshold(100_000)
    # Otherwise numba looks into its cache first, which makes it try strings, lists and dictionaries before
    # arrays wherever something is indexed: a sixth of the time of compiling.
    cpu_target.typing_context.refresh()
    warm_kernels()
    warm_store_kernels()
    warm_server_kernels()
    warm_text_kernels()


def folders_of_kernels() -> set[str]:
    """Return the folders in which numba has put the compiled kernels that are loaded."""
    from numba.core.dispatcher import Dispatcher

    return {
        str(value.stats.cache_path)
        for name, module in list(sys.modules.items())
        if name.startswith("chimbuko.")
        for value in vars(module).values()
        if isinstance(value, Dispatcher) and value.stats.cache_path is not None
    }
