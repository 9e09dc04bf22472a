"""The command that starts a program on a node of a run, with its settings: a script, so that thousands of
ranks that begin at the same time need no Python for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from chimbuko.trace.discovery import STREAM_PREFIX

NODE_VARIABLE = "CHIMBUKO_NODE"
"""Environment variable with the node's name, where it is not that of the host."""
AGENT_MARK = "agent"
"""File in the folder of a node's streams: their agent has come."""
LONGEST_WAIT_S = 30
"""For the agent; without one the program starts all the same."""

_TRIES_PER_S = 5


def node_command(settings: Mapping[str, str], streams: Path) -> str:
    """Text of the script.

    Parameters
    ----------
    settings
        Environment of the program, from ``application_settings``; where streams go is chosen here.
    streams
        Folder in which each node has one, of its name, for its streams.
    """
    values = {name: value for name, value in settings.items() if name != "TAU_ADIOS2_FILENAME"}
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())
    return f"""#!/bin/sh
# Starts a program on a node of this run: {Path("settings/node")} COMMAND...
# It waits for the agent of the node, so that nothing of the program is missed.
node=${{{NODE_VARIABLE}:-$(uname -n)}}
streams={shlex.quote(str(streams.absolute()))}/$node
mkdir -p -m 700 "$streams" || exit 1
tries={LONGEST_WAIT_S * _TRIES_PER_S}
until [ -e "$streams/{AGENT_MARK}" ]; do
    tries=$((tries - 1))
    if [ "$tries" -lt 0 ]; then
        echo "chimbuko: no agent has come to $node in {LONGEST_WAIT_S} s; its beginning is missed" >&2
        break
    fi
    sleep {1 / _TRIES_PER_S}
done
{exports}
export TAU_ADIOS2_FILENAME="$streams/{STREAM_PREFIX}"
exec "$@"
"""
