"""The option that says where a service of namespaces is."""

from __future__ import annotations

import click

service_option = click.option(
    "--service",
    metavar="PLACE",
    help="Folder of the service of namespaces, or file of a job's place in it; default: CHIMBUKO_NAMESPACES.",
)
