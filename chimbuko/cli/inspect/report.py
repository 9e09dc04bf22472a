"""``chimbuko report``: a run as one page that opens without a server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chimbuko.cli.shared.table import print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.names import visible
from chimbuko.launcher.outcome.reach import reachable_run


@click.command("report", short_help="Write a run as one page that can be mailed.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="New file for the page.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(run: Path | None, output: Path, as_json: bool) -> None:
    """Write RUN, a run's folder, by default the newest under ./chimbuko-runs, as one page that can be mailed.

    It opens in a browser, without a server: the dashboard, with what was found, why, the timelines of it,
    ranks and functions ranked, the flame graph, the worst calls and the health of the analysis, in at most
    5 MB. The page says what is left out.

    \b
    Examples:
      chimbuko report -o heat.html
      chimbuko report chimbuko-runs/heat -o heat.html
    """
    # Loaded here: 'chimbuko report --help' need not wait for a web server.
    from chimbuko.viz.http.report import write_report

    if output.exists():
        raise ConfigError(f"{output}: is there already; choose another name")
    written = write_report(reachable_run(run), output)
    if as_json:
        print_json(written)
        return
    left_out = ", ".join(written.left_out)
    size_mb = written.size_bytes / 1e6
    print(f"{visible(written.path)}: {size_mb:.1f} MB; not in it: {left_out}", file=sys.stderr)
