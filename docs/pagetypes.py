"""Writes the page's types of what the server answers, from the description that the server gives of its API.

Run: python docs/pagetypes.py          writes viz/web/src/shared/api/schema.ts anew; needs npm ci in viz/web
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from chimbuko.viz.api.endpoints import ENDPOINTS
from chimbuko.viz.api.openapi import document

WEB = Path(__file__).resolve().parent.parent / "viz" / "web"
GENERATOR = WEB / "node_modules" / ".bin" / "openapi-typescript"
TYPES = WEB / "src" / "shared" / "api" / "schema.ts"
_OPTIONS = ("--root-types", "--root-types-no-schema-prefix", "--root-types-keep-casing")


def written() -> str:
    """The types as they are now, each under its own name."""
    described = document(ENDPOINTS)
    # The page needs the answers only, and a version would change the file with each release.
    described |= {"paths": {}, "servers": [], "info": {"title": "Chimbuko", "version": ""}}
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "schema.ts")
        source.write_text(json.dumps(described))
        command = [GENERATOR, source, "--output", target, *_OPTIONS]
        subprocess.run(command, check=True, capture_output=True)
        return target.read_text()


if __name__ == "__main__":
    TYPES.write_text(written())
