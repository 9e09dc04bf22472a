"""``chimbuko warmup``: compiles all kernels now, so that no run has to."""

from __future__ import annotations

import sys
import time

import click

from chimbuko.ad.warmup import warm_kernels
from chimbuko.provenance.packing import warm_kernels as warm_store_kernels
from chimbuko.pserver.warmup import warm_kernels as warm_server_kernels


@click.command()
def command() -> None:
    """Compile all kernels into the cache beside the package.

    Install targets call it; it takes about 20 s once, and a fraction of a second afterwards.

    \b
    Example:
      chimbuko warmup
    """
    started = time.monotonic()
    warm_kernels()
    warm_store_kernels()
    warm_server_kernels()
    print(f"kernels are ready ({time.monotonic() - started:.1f} s)", file=sys.stderr)
