"""The option that says what a service's own broker listens on."""

from __future__ import annotations

import click

from chimbuko.runtime.protocol.broker import LOOPBACK

bind_option = click.option(
    "--bind",
    default=LOOPBACK,
    show_default=True,
    metavar="WHERE[:PORT]",
    help="What the broker listens on: a network interface, an address, or a name of this host.",
)
