"""Writes what the page knows of the API, types of answers and choices, from the server's description of it.

Run: python docs/pagetypes.py          writes viz/web/src/shared/api/schema.ts anew; needs npm ci in viz/web
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import document

WEB = Path(__file__).resolve().parent.parent / "viz" / "web"
GENERATOR = WEB / "node_modules" / ".bin" / "openapi-typescript"
TYPES = WEB / "src" / "shared" / "api" / "schema.ts"
CHOICES = {
    "SORTS": ("/calls", "sort"),
    "LABELS": ("/calls", "label"),
    "STREAM_ORDERS": ("/streams", "sort"),
    "STREAM_STATES": ("/streams", "state"),
}
"""The page's names of what parameters can be, each with the endpoint and the parameter."""
_OPTIONS = ("--root-types", "--root-types-no-schema-prefix", "--root-types-keep-casing")


def written() -> str:
    """The types as they are now, each under its own name, and behind them the choices."""
    described = document(ENDPOINTS)
    choices = "".join(
        f"export const {name} = {json.dumps(_choices(described, *of))} as const;\n"
        for name, of in CHOICES.items()
    )
    # The page needs the answers only, and a version would change the file with each release.
    described |= {"paths": {}, "servers": [], "info": {"title": "Chimbuko", "version": ""}}
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "schema.ts")
        source.write_text(json.dumps(described))
        command = [GENERATOR, source, "--output", target, *_OPTIONS]
        subprocess.run(command, check=True, capture_output=True)
        return target.read_text() + choices


def _choices(described: dict[str, Any], path: str, parameter: str) -> list[str]:
    """All values of a parameter, by the alphabet."""
    parameters = described["paths"][path]["get"]["parameters"]
    found: list[str] = next(one["schema"]["enum"] for one in parameters if one["name"] == parameter)
    return found


if __name__ == "__main__":
    TYPES.write_text(written())
