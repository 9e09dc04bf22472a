"""The command that starts a program on a node of a run, with its settings: a script, so that thousands of
ranks that begin at the same time need no Python for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from chimbuko.capture.trace.discovery import STREAM_PREFIX, Transport
from chimbuko.capture.trace.shield import REPORT_VARIABLE
from chimbuko.core.files import write_atomically
from chimbuko.runtime.preload import PRELOAD_VARIABLE
from chimbuko.runtime.runs.directory import AGENT_MARK, COMING_MARK

NODE_VARIABLE = "CHIMBUKO_NODE"
"""Environment variable with the node's name, where it is not that of the host."""
LONGEST_WAIT_S = 60
"""Longest wait for the agent, or for a sign of it, in seconds; without one the program starts all the same.

An agent of 9,000 nodes comes at some moment of the first 15 s, and unpacks its installation for some more.
"""

_TRIES_PER_S = 5


def node_command(settings: Mapping[Transport, Mapping[str, str]], streams: Path) -> str:
    """Return the text of the script.

    Parameters
    ----------
    settings
        Environment of the program over each transport, from ``application_settings``; where streams go is
        chosen here.
    streams
        Folder in which each node has one, of its name, for its streams.
    """
    return f"""#!/bin/sh
# Starts a program on a node of this run: {Path("settings/node")} COMMAND...
# It waits for the agent of the node, so that nothing of the program is missed. The agent says how the trace
# is to come; where there is none, it is over SST, by which nothing piles up that nobody reads.
node=${{{NODE_VARIABLE}:-$(uname -n)}}
streams={shlex.quote(str(streams.absolute()))}/$node
mkdir -p -m 700 "$streams" || exit 1
tries={LONGEST_WAIT_S * _TRIES_PER_S}
transport={Transport.SST} shield='' reports='' sign='' last=''
until [ -e "$streams/{AGENT_MARK}" ]; do
    tries=$((tries - 1))
    # Kernels take a minute to compile, once: meanwhile the agent gives signs, and nobody is impatient.
    [ ! -e "$streams/{COMING_MARK}" ] || read -r sign 2>/dev/null <"$streams/{COMING_MARK}"
    if [ "$sign" != "$last" ]; then
        last=$sign tries={LONGEST_WAIT_S * _TRIES_PER_S}
    fi
    if [ "$tries" -lt 0 ]; then
        echo "chimbuko: no agent has come to $node in {LONGEST_WAIT_S} s; its beginning is missed" >&2
        break
    fi
    sleep {1 / _TRIES_PER_S}
done
if [ -e "$streams/{AGENT_MARK}" ]; then
    read -r transport shield reports <"$streams/{AGENT_MARK}"
fi
case $transport in
{Transport.FILES})
{_exports(settings[Transport.FILES])}
    ;;
*)
{_exports(settings[Transport.SST])}
    ;;
esac
if [ -n "$shield" ]; then
    export {PRELOAD_VARIABLE}="$shield${{{PRELOAD_VARIABLE}:+ ${PRELOAD_VARIABLE}}}"
    export {REPORT_VARIABLE}="$reports"
fi
export TAU_ADIOS2_FILENAME="$streams/{STREAM_PREFIX}"
exec "$@"
"""


def leave_mark(streams: Path, transport: Transport, shield: Sequence[Path] = ()) -> None:
    """Let programs on the node know that their agent has come.

    Parameters
    ----------
    streams
        The node's folder.
    shield
        Library to preload over SST, and the folder for its reports; nothing for none.

    Raises
    ------
    OSError
        It cannot be written.
    """
    text = " ".join([transport.value, *map(str, shield)]) + "\n"
    write_atomically(streams / AGENT_MARK, text.encode())


def _exports(settings: Mapping[str, str]) -> str:
    values = {name: value for name, value in settings.items() if name != "TAU_ADIOS2_FILENAME"}
    return "\n".join(f"    export {name}={shlex.quote(value)}" for name, value in values.items())
