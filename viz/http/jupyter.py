"""Entry in JupyterLab's launcher: jupyter-server-proxy starts the dashboard, and admits its user."""

from __future__ import annotations

import secrets
import sys
from typing import Any

from chimbuko.runtime.runs.directory import RUNS_FOLDER
from chimbuko.viz.http.listening import TOKEN_VARIABLE

START_S = 60
"""Time in seconds until the dashboard has to answer: on a network file system its modules take a while to
load.
"""


def server() -> dict[str, Any]:
    """Return the settings of the dashboard for jupyter-server-proxy, which calls this as an entry point.

    All runs of ``chimbuko-runs`` in the folder of the Jupyter server are shown; at first there may be none.
    Jupyter has looked at who asks, and where the page came from. What it passes on holds our token, which no
    browser sees, in place of Jupyter's own; and our names in place of the portal's, which nobody knows here.
    """
    token = secrets.token_urlsafe(32)
    own = "localhost:{port}"
    return {
        "command": _command,
        "environment": {TOKEN_VARIABLE: token},
        "timeout": START_S,
        "request_headers_override": {
            "Authorization": f"Bearer {token}",
            "Host": own,
            "Origin": f"http://{own}",
        },
        "launcher_entry": {"title": "Chimbuko", "category": "Other"},
    }


def _command() -> list[str]:
    """Return the command of the dashboard; called when it starts, in the folder of the Jupyter server."""
    RUNS_FOLDER.mkdir(exist_ok=True)
    return [sys.executable, "-m", "chimbuko", "view", "--port", "{port}", str(RUNS_FOLDER)]
