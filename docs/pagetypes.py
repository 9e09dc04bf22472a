"""Writes what the page knows of the server: types and choices of the API, and the causes of lost time.

Run: python docs/pagetypes.py          writes schema.ts and causes.ts in viz/web/src/shared/api anew; needs
                                       npm ci in viz/web
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chimbuko.causes.kinds.registry import CAUSES
from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import document

WEB = Path(__file__).resolve().parent.parent / "viz" / "web"
GENERATOR = WEB / "node_modules" / ".bin" / "openapi-typescript"
TYPES = WEB / "src" / "shared" / "api" / "schema.ts"
CAUSES_OF_PAGE = TYPES.with_name("causes.ts")
CHOICES = {
    "SORTS": ("/calls", "sort"),
    "LABELS": ("/calls", "label"),
    "STREAM_ORDERS": ("/streams", "sort"),
    "STREAM_STATES": ("/streams", "state"),
}
"""Names in the page of the values that parameters can have, each with the endpoint and the parameter."""
_OPTIONS = ("--root-types", "--root-types-no-schema-prefix", "--root-types-keep-casing")
_HEAD = """\
/**
 * Causes of lost time, in the order in which calls are asked for them. Written by docs/pagetypes.py.
 *
 * `id` is the value of `kind` in the API, and the name of the cause; `colour` one of the styles `cause-…`
 * in `incident.css`. `isWait`: the call waited for another one. `isHeldUp`: the node kept the thread from
 * running. `text` completes "This much time was lost …". In it `{function}`, `{rank}`, `{by}` and `{count}`
 * are fields of the API's `Part`, and `{meanwhile}` says what the other rank was doing; `{by|someone}` has a
 * text for an empty field, `{count program}` a noun that is counted; what is in brackets is left out where a
 * field in it is empty.
 */
"""


def types() -> str:
    """Return the types as they are now, each under its own name, and behind them the choices."""
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


def causes() -> str:
    """Return what the page knows of the causes as they are now."""
    rows = (
        {
            "id": cause.id,
            "colour": cause.colour,
            "isWait": cause.is_wait,
            "isHeldUp": cause.is_held_up,
            "text": cause.text,
        }
        for cause in CAUSES
    )
    lines = "".join(f"  {json.dumps(row, ensure_ascii=False)},\n" for row in rows)
    return f"{_HEAD}export const CAUSES = [\n{lines}] as const;\n"


def _choices(described: dict[str, Any], path: str, parameter: str) -> list[str]:
    """Return all values of a parameter, by the alphabet."""
    parameters = described["paths"][path]["get"]["parameters"]
    found: list[str] = next(one["schema"]["enum"] for one in parameters if one["name"] == parameter)
    return found


if __name__ == "__main__":
    TYPES.write_text(types())
    CAUSES_OF_PAGE.write_text(causes())
