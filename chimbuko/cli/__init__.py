"""The command line: one file per verb, in the sub-packages.

May import launcher and runtime.process.
It begins in ``start``.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chimbuko import __version__
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.names import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS = {
    "Run and record a program": {
        "run": "Run COMMAND with the analysis beside it, or analyse a recorded trace.",
        "attach": "Record a Python program that runs already, with the analysis beside it.",
        "trace": "Run a program with its functions and messages recorded.",
        "monitor": "Watch a program's threads and cores, without a trace.",
        "cc": "Compile C or C++ so that annotated functions are recorded.",
        "cc-flags": "Print how to compile a program so that its functions are recorded.",
        "overhead": "Measure what tracing and analysis cost a program.",
    },
    "See what was found": {
        "incidents": "List what was slow and why, each delay once.",
        "show": "Show one call, incident or finding with all that is known of it.",
        "view": "Show runs in the browser; Ctrl-C ends it.",
        "report": "Write a run as one page that can be mailed.",
        "compare": "Compare two runs: what is slower, new, gone, more often abnormal.",
        "history": "Show what changed over the runs of a program, when, and how sure that is.",
        "query": "List abnormal calls, worst first.",
        "nodes": "What nodes did, and what was wrong there.",
        "sql": "Ask a run's database in SQL; nothing can be changed.",
        "export": "Write a run for Perfetto, speedscope, notebooks and other tools.",
        "runs": "List, rename, delete, archive, import, prune or complete runs.",
    },
    "Work with traces": {
        "merge": "Put traces of any formats together into one, on one clock.",
        "follow": "Feed traces that other tools are writing to an analysis.",
        "replay": "Feed recorded traces to readers as if the application ran now.",
        "filter": "Propose functions to leave out of the trace.",
        "simulate": "Make up a run from a description, with known delays.",
    },
    "Run on many nodes": {
        "launch": "Print the job script of a run on many nodes.",
        "serve": "Run the services of a run on many nodes.",
        "agent": "Read the streams of this node, for a run on many nodes.",
        "stop": "End a run on many nodes.",
    },
    "Plan and observe workflows": {
        "model": "Predict where in-situ tasks run best, from few measurements.",
        "workflow": "Run a workflow's tasks with services, analysis and monitors.",
        "task": "Report tasks of your own workflow engine.",
        "namespaces": "Serve, publish and read observations of a workflow.",
    },
    "Look after this installation": {
        "doctor": "Check this machine before a run.",
        "warmup": "Compile all kernels into a library beside the package.",
        "plugins": "List what installed packages add to Chimbuko.",
    },
}
"""The verbs by their subject. What each does is given as its own help begins, which need not be loaded to say
so."""
VERBOSE = "-v"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
VERBS = {verb: text for verbs in SECTIONS.values() for verb, text in verbs.items()}
_PACKAGES = ("execute", "inspect", "maintain", "observe")
"""Sub-packages with the modules of the verbs."""


class _Verbs(click.Group):
    """Loads only the verb that was asked for: importing all of them costs more than a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        from chimbuko.runtime.process.signals import ended_by_ctrl_c
        from chimbuko.runtime.process.starting import one_blas_thread, remedy_of, uncollected

        try:
            with uncollected(), one_blas_thread(), ended_by_ctrl_c():
                command: click.Command = _module(cmd_name).command
        except (ImportError, OSError, MemoryError, SystemError) as error:
            # A library that finds no room, or no file descriptor, says so in its own way, and so does Python.
            reason = next(iter(str(error).splitlines()), "no memory")
            words = f"'chimbuko {cmd_name}' cannot be loaded ({reason}); {remedy_of(error)}"
            raise ChimbukoError(words) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=VERBS, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the words that a word may become; no verb is loaded for that."""
        # Loaded here: no verb needs it.
        from click.shell_completion import CompletionItem as Item

        verbs = {verb: text for verb, text in VERBS.items() if verb.startswith(incomplete)}
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(Item(verb, help=text) for verb, text in verbs.items()), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(verbs.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ChimbukoError as error:
            # Loaded here: no verb that does its work needs it.
            from chimbuko.runtime.process.lifetime import is_verbose

            if is_verbose():
                # A module that takes 10 ms to load.
                import traceback

                traceback.print_exc()
            print(f"chimbuko: {visible(str(error))}", file=sys.stderr)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def _module(verb: str) -> Any:
    name, here = verb.replace("-", ""), Path(__file__).parent
    package = next(one for one in _PACKAGES if (here / one / f"{name}.py").exists())
    return importlib.import_module(f"chimbuko.cli.{package}.{name}")


def start(heed_ctrl_c: Callable[[], object]) -> None:
    """Run the command ``chimbuko``.

    Parameters
    ----------
    heed_ctrl_c
        Called when all is loaded that is needed to tell of Ctrl-C; before, it just ends the process.
    """
    if [word for word in sys.argv[1:] if word != VERBOSE][:1] == ["run"]:
        from chimbuko.launcher.application import part

        heed_ctrl_c()
        part()
    else:
        heed_ctrl_c()
    main()


def _be_verbose(context: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        # Loaded here, as above.
        from chimbuko.runtime.process.lifetime import LOG_VARIABLE

        os.environ[LOG_VARIABLE] = "debug"


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="chimbuko")
@click.option(
    VERBOSE,
    is_flag=True,
    expose_value=False,
    callback=_be_verbose,
    help="Print lines with their time and process, and errors with where they come from; also set by "
    "CHIMBUKO_LOG=debug.",
)
def main() -> None:
    """Find the abnormally slow calls of a running parallel program.

    \b
    Examples:
      chimbuko run simulation.py
      chimbuko run -- mpirun -n 4 ./app
      chimbuko incidents
      chimbuko show I1
      chimbuko view

    Each verb has a page of its own: chimbuko VERB --help.
    """
