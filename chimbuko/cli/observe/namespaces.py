"""``chimbuko namespaces``: publishes, reads and analyses observations."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chimbuko.cli.observe.service import VERBS
from chimbuko.cli.shared.services import service_option
from chimbuko.cli.shared.table import print_json
from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.core.names import escaped_json, visible
from chimbuko.core.units import parse_duration_us
from chimbuko.observe.namespaces.exchange.texts import FORMATS
from chimbuko.runtime.process.lifetime import log as say

if TYPE_CHECKING:
    from chimbuko.observe.namespaces.client.client import Namespace

INTERRUPTED_CODE = 130
SERVICE_WAIT_S = 15.0
"""Longest time for which publishing waits for a service that is being started, which takes 2 s."""
UNDER = click.argument("under", metavar="[KEY]", required=False, default="")
FORM = click.option(
    "--form",
    type=click.Choice(list(FORMATS)),
    default=next(iter(FORMATS)),
    show_default=True,
    help="Form of the output.",
)
FILE = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write into this file instead of standard output."
)


@click.group("namespaces", short_help="Serve, publish and read observations of a workflow.")
def command() -> None:
    """Serve, publish and read what programs, nodes and workflows report of themselves.

    An observation has a namespace (workflow, application, hardware, performance), a key such as
    'Rank 3/loss', and a value: a boolean, a number, a string, or an array of numbers.

    \b
    Examples:
      chimbuko namespaces serve observations &
      export CHIMBUKO_NAMESPACES=$PWD/observations
      chimbuko namespaces publish application loss=0.25 step=100
      chimbuko namespaces read application
    """


for verb in VERBS:
    command.add_command(verb)


@command.command("publish", short_help="Publish values.")
@click.argument("namespace")
@click.argument("values", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--append", "is_appended", is_flag=True, help="Append to what is there instead of setting it.")
@service_option
def publish(namespace: str, values: tuple[str, ...], is_appended: bool, service: str | None) -> None:
    """Publish values in NAMESPACE, and wait until the service has them.

    A VALUE that is JSON is a number, a boolean, a string or an array of numbers; all else is a string.

    \b
    Examples:
      chimbuko namespaces publish application loss=0.25 'field/min=[0.1, 0.2]'
      chimbuko namespaces publish workflow task.000001/state=DONE
      chimbuko namespaces publish application residuals=0.01 --append
    """
    from chimbuko.observe.namespaces.client.client import Client

    # A script starts the service in the background, and goes on to publish.
    with Client(service, wait_s=SERVICE_WAIT_S) as client:
        one = client.create(namespace)
        for text in values:
            key, equals, value = text.partition("=")
            if not equals:
                raise ConfigError(f"{text!r}: is no KEY=VALUE; give one like loss=0.25")
            one.update(key, _value(value), "append" if is_appended else "overwrite")
        one.publish()


@command.command("read", short_help="Print what is known now.")
@click.argument("namespace")
@UNDER
@FORM
@FILE
@service_option
def read(namespace: str, under: str, form: str, output: Path | None, service: str | None) -> None:
    """Print the values that are known in NAMESPACE, or those in the group KEY; also as Conduit reads them.

    \b
    Examples:
      chimbuko namespaces read application
      chimbuko namespaces read application 'Rank 3' --form json
      chimbuko namespaces read performance --form conduit_base64_json -o performance.conduit
    """
    from chimbuko.observe.namespaces.exchange.namespacereader import Reader

    with Reader(service) as reader:
        found = reader.tree(namespace, under)
    if under and not found:
        raise ConfigError(
            f"{under}: nothing is there; 'chimbuko namespaces read {namespace}' prints all keys"
        )
    _print(FORMATS[form](found), output)


@command.command("watch", short_help="Print what is published, as it comes.")
@click.argument("namespace")
@UNDER
@click.option("--past", "has_past", is_flag=True, help="Begin with what is kept of the past.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each publication.")
@service_option
def watch(namespace: str, under: str, has_past: bool, as_json: bool, service: str | None) -> None:
    """Print what is published in NAMESPACE, or in its group KEY, as it comes, until Ctrl-C.

    \b
    Examples:
      chimbuko namespaces watch application
      chimbuko namespaces watch workflow --past --json
    """
    from chimbuko.observe.namespaces.exchange.namespacereader import Reader

    try:
        with Reader(service) as reader:
            for observation in reader.subscribe(namespace, under, has_past):
                for line in _lines(observation, as_json):
                    print(line, flush=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_CODE)


@command.command("analyse", short_help="Print what an analysis finds in a namespace.")
@click.argument("namespace")
@click.argument("analysis")
@FORM
@FILE
@click.option("--publish", "into", metavar="KEY", help="Publish it, too, in this group of the namespace.")
@click.option(
    "--every",
    metavar="PERIOD",
    help="Repeat the analysis after each PERIOD until Ctrl-C, and publish what has changed; with --publish.",
)
@click.option(
    "--worker",
    "by_worker",
    is_flag=True,
    help="Ask a worker for it ('work', 'serve --workers'), and do not wait; with --publish.",
)
@service_option
def analyse_namespace(
    namespace: str,
    analysis: str,
    form: str,
    output: Path | None,
    into: str | None,
    every: str | None,
    by_worker: bool,
    service: str | None,
) -> None:
    """Print what ANALYSIS finds in what was published in NAMESPACE, as far back as it is kept.

    There are 'cpu-utilisation' (of hardware), 'load-balance' (of performance), 'metric-anomalies' (of
    application), 'task-states' (of workflow), and those that packages bring as entry points of the group
    'chimbuko.analyses'.

    \b
    Examples:
      chimbuko namespaces analyse hardware cpu-utilisation
      chimbuko namespaces analyse application metric-anomalies --form json
      chimbuko namespaces analyse performance load-balance --publish analysis --every 10s
      chimbuko namespaces analyse application my-analysis --publish advice --worker
    """
    from chimbuko.observe.namespaces.client.client import Client

    if into is None and (every or by_worker):
        raise ConfigError("--every and --worker: say by --publish KEY where to publish what is found")
    period_s = parse_duration_us(every) / 1e6 if every else 0.0
    with Client(service) as client:
        one = client.create(namespace)
        if into is not None and every:
            _repeat((_ask_again if by_worker else _analyse_again)(one, analysis, into), period_s)
        elif into is not None and by_worker:
            one.analyse_async(analysis, into)
            say(f"a worker was asked; how far it has come: 'chimbuko namespaces read {namespace} analyses'")
        else:
            _print(FORMATS[form](one.analyse(analysis, into)), output)


def _repeat(look: Callable[[], str], period_s: float) -> None:
    """Print again each period until Ctrl-C. A problem is said in one line, and once while it lasts."""
    said = ""
    try:
        while True:
            try:
                problem = look()
            except ChimbukoError as error:
                problem = str(error)
            if problem not in ("", said):
                say(problem)
            said = problem
            time.sleep(period_s)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_CODE)


def _ask_again(one: Namespace, analysis: str, into: str) -> Callable[[], str]:
    """Asks a worker unless one is at it, or will be; returns why it failed the last time."""
    from chimbuko.observe.namespaces.client.asking import Progress

    def look() -> str:
        progress, reason = one.analysis_progress(into) or (Progress.DONE, "")
        if progress in (Progress.DONE, Progress.FAILED):
            one.analyse_async(analysis, into)
        return reason

    return look


def _analyse_again(one: Namespace, analysis: str, into: str) -> Callable[[], str]:
    """Publishes what is found, where that has changed; returns nothing."""
    from chimbuko.observe.namespaces.analyses.registry import check_analysis
    from chimbuko.observe.namespaces.exchange.paths import parse_path
    from chimbuko.observe.namespaces.exchange.tree import Tree, nested

    check_analysis(analysis)
    before = Tree()

    def look() -> str:
        nonlocal before
        found = one.analyse(analysis)
        if found != before:
            one.publish_tree(nested((parse_path(into) + path, leaf) for path, leaf in found))
            before = found
        return ""

    return look


@command.command(
    "relay",
    short_help="Publish for a program in C.",
    context_settings={"allow_interspersed_args": False},
)
@service_option
@click.argument("command_line", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND...")
def relay_program(service: str | None, command_line: tuple[str, ...]) -> None:
    """Run COMMAND, and publish what its processes on this node say by chimbuko_namespaces.h, a header for C
    and C++ beside chimbuko.h ('chimbuko cc-flags'). Its exit code is kept.

    \b
    Examples:
      chimbuko namespaces relay -- mpirun -n 4 ./heat
      srun --ntasks-per-node=1 chimbuko namespaces relay -- ./heat
    """
    from chimbuko.observe.namespaces.client.relaying import relay

    sys.exit(relay(command_line, service))


@command.command(
    "caliper",
    short_help="Publish what Caliper measures.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where the profiles are; default a temporary one, for COMMAND.",
)
@click.option(
    "--program",
    default="",
    metavar="NAME",
    help="Name that stands before the keys, to tell several programs apart.",
)
@service_option
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="[--] [COMMAND...]")
def monitor_caliper(
    folder: Path | None, program: str, service: str | None, command_line: tuple[str, ...]
) -> None:
    """Run COMMAND, which is instrumented with Caliper, and publish in the namespace performance what its
    profiles say: each time when it calls cali_flush(0), and at its end. Its exit code is kept. Without
    COMMAND, follow the profiles in a folder until Ctrl-C.

    \b
    Examples:
      chimbuko namespaces caliper -- mpirun -n 4 ./lulesh
      chimbuko namespaces caliper --folder profiles --program lulesh
    """
    if folder is None and not command_line:
        raise ConfigError("nothing to follow: name a program, or a folder with --folder")
    try:
        from chimbuko.observe.namespaces.client.caliper import monitor
    except ImportError as error:
        raise ConfigError(
            "to read profiles of Caliper install what that needs: pip install 'chimbuko[caliper]'"
        ) from error
    sys.exit(monitor(command_line, folder, program, service))


@command.command("counts", short_help="Print how much was published.")
@service_option
def counts(service: str | None) -> None:
    """Print how many publications and commits each instance of each namespace has taken, as JSON.

    \b
    Examples:
      chimbuko namespaces counts
    """
    from chimbuko.observe.namespaces.exchange.namespacereader import Reader

    with Reader(service) as reader:
        found = {name: reader.counts(name) for name in reader.namespaces}
    print_json(found)


def _lines(observation: object, as_json: bool) -> list[str]:
    from chimbuko.observe.namespaces.exchange.namespacereader import Observation
    from chimbuko.observe.namespaces.exchange.paths import format_path
    from chimbuko.observe.namespaces.exchange.texts import plain

    assert isinstance(observation, Observation)
    change = observation.change
    put = {format_path(path): plain(leaf) for path, leaf in change.put.items()}
    appended = {format_path(path): plain(leaf) for path, leaf in change.appended.items()}
    if as_json:
        fields = {"time_us": observation.time_us, "rank": observation.rank, "put": put, "appended": appended}
        return [escaped_json(json.dumps(fields, ensure_ascii=False))]
    moment = time.strftime("%H:%M:%S", time.localtime(observation.time_us / 1e6))
    lines = [f"{path} = {json.dumps(value, ensure_ascii=False)}" for path, value in put.items()]
    lines += [f"{path} += {json.dumps(value, ensure_ascii=False)}" for path, value in appended.items()]
    return [f"{moment}  rank {observation.rank}  {visible(line)}" for line in lines]


def _print(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(escaped_json(text))
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written ({error.strerror})") from error


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
