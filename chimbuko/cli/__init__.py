"""The command line: one file per verb, in a sub-package for each kind of verb.

May import launcher and runtime.process.
It begins in ``start``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from chimbuko import __version__
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.names import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS = {
    "execute": (
        "Run an analysis",
        {
            "run": "Run COMMAND with the analysis beside it, or analyse a recorded trace.",
            "trace": "Run a program with its functions and messages recorded.",
            "attach": "Record a Python program that runs already, with the analysis beside it.",
            "cc": "Compile C or C++ so that annotated functions are recorded.",
            "cc-flags": "Print how to compile a program so that its functions are recorded.",
            "monitor": "Watch a program's threads and cores, without a trace.",
            "filter": "Propose functions to leave out of the trace.",
            "replay": "Feed recorded traces to readers as if the application ran now.",
            "follow": "Feed traces that other tools are writing to an analysis.",
            "launch": "Print the job script of a run on many nodes.",
            "serve": "Run the services of a run on many nodes.",
            "agent": "Read the streams of this node, for a run on many nodes.",
            "stop": "End a run on many nodes.",
        },
    ),
    "inspect": (
        "See what was found",
        {
            "report": "Write a run as one page that can be mailed.",
            "view": "Show runs in the browser; Ctrl-C ends it.",
            "incidents": "List what was slow and why, each delay once.",
            "nodes": "What nodes did, and what was wrong there.",
            "query": "List abnormal calls, worst first.",
            "show": "Show one call, incident or finding with all that is known of it.",
            "compare": "Compare two runs: what is slower, new, gone, more often abnormal.",
            "recall": "Write a trace of what all ranks did around a call.",
            "sql": "Ask a run's database in SQL; nothing can be changed.",
            "export": "Write a run for Perfetto, speedscope, notebooks and other tools.",
        },
    ),
    "plan": (
        "Say what an analysis costs, and where it should run",
        {
            "model": "Predict where in-situ tasks run best, from few measurements.",
            "overhead": "Measure what tracing and analysis cost a program.",
        },
    ),
    "observe": (
        "Observe a workflow",
        {
            "workflow": "Run a workflow's tasks with services, analysis and monitors.",
            "task": "Report tasks of your own workflow engine.",
            "namespaces": "Serve, publish and read observations of a workflow.",
        },
    ),
    "maintain": (
        "Look after runs and machines",
        {
            "runs": "List, rename, delete, archive, import or prune runs.",
            "relabel": "Judge the recorded calls again, by the final model.",
            "merge": "Put traces of any formats together into one, on one clock.",
            "index": "Make a recorded trace ready for the dashboard's timeline.",
            "deliver": "Store what agents could not deliver.",
            "doctor": "Check this machine before a run.",
            "warmup": "Compile all kernels into a library beside the package.",
            "plugins": "List what installed packages add to Chimbuko.",
        },
    ),
}
"""The verbs by the sub-package that holds them. What each does is given as its own help begins, which need
not be loaded to say so."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
VERBS = {verb: text for _, verbs in SECTIONS.values() for verb, text in verbs.items()}
_PACKAGES = {verb: package for package, (_, verbs) in SECTIONS.items() for verb in verbs}


class _Verbs(click.Group):
    """Loads only the verb that was asked for: importing all of them costs more than a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        from chimbuko.runtime.process.signals import ended_by_ctrl_c
        from chimbuko.runtime.process.starting import one_blas_thread, uncollected

        try:
            with uncollected(), one_blas_thread(), ended_by_ctrl_c():
                command: click.Command = _module(cmd_name).command
        except (ImportError, OSError, MemoryError, SystemError) as error:
            # A library that finds no room, or no file descriptor, says so in its own way, and so does Python.
            reason = next(iter(str(error).splitlines()), "no memory")
            raise ChimbukoError(
                f"'chimbuko {cmd_name}' cannot be loaded ({reason}); "
                "allow for more memory (ulimit -v) and open files (ulimit -n)"
            ) from error
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
        for heading, verbs in SECTIONS.values():
            with formatter.section(heading):
                formatter.write_dl(list(verbs.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ChimbukoError as error:
            print(f"chimbuko: {visible(str(error))}", file=sys.stderr)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def _module(verb: str) -> Any:
    return importlib.import_module(f"chimbuko.cli.{_PACKAGES[verb]}.{verb.replace('-', '')}")


def start(heed_ctrl_c: Callable[[], object]) -> None:
    """Run the command ``chimbuko``.

    Parameters
    ----------
    heed_ctrl_c
        Called when all is loaded that is needed to tell of Ctrl-C; before, it just ends the process.
    """
    if sys.argv[1:2] == ["run"]:
        from chimbuko.launcher.application import part

        heed_ctrl_c()
        part()
    else:
        heed_ctrl_c()
    main()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="chimbuko")
def main() -> None:
    """Find the abnormally slow calls of a running parallel program.

    \b
    Examples:
      chimbuko run -- mpirun -n 4 tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko run --trace 'traces/tau-metrics-*.bp'
      chimbuko query --function 'MPI_*' --limit 10
    """
