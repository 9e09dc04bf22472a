"""Serves endpoints: reads what is asked, and sends objects, or lines as they come."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec
from flask import Blueprint, Response, request
from werkzeug.datastructures import MultiDict

from chimbuko.core.errors import ChimbukoError
from chimbuko.viz.api.endpoint import Endpoint, ServedRun
from chimbuko.viz.api.errors import error_body
from chimbuko.viz.api.objects import encode
from chimbuko.viz.api.openapi import LINES, ROOT, document
from chimbuko.viz.api.parameters import read_parameters
from chimbuko.viz.api.shared import SharedAnswers

CHUNK_BYTES = 65_536
"""Of lines that are sent together: about what a connection takes at once."""


def make_api(run: ServedRun, endpoints: Sequence[Endpoint]) -> Blueprint:
    """The API of one run, and the document that describes it."""
    api = Blueprint("api", __name__, url_prefix=ROOT)
    description = msgspec.json.encode(document(endpoints))
    shared = SharedAnswers()
    for endpoint in endpoints:
        rule = re.sub("{(.*?)}", r"<\1>", endpoint.path)
        api.add_url_rule(rule, endpoint.name, _view(run, endpoint, shared))

    @api.get("/openapi.json")
    def openapi() -> Response:
        return _json(description)

    return api


def _view(run: ServedRun, endpoint: Endpoint, shared: SharedAnswers) -> Any:
    def view(**in_path: str) -> Response:
        given = MultiDict(request.args)
        given.update(in_path)
        wanted = read_parameters(given, endpoint.parameters)
        if endpoint.is_lines:
            return Response(_lines(endpoint.ask(run, wanted), endpoint.answer), mimetype=LINES)
        question = endpoint.path, msgspec.json.encode(wanted)
        return _json(shared.get(question, lambda: encode(endpoint.ask(run, wanted), endpoint.answer)))

    return view


def _json(body: bytes) -> Response:
    """An answer that need not be sent again to who has it."""
    response = Response(body, mimetype="application/json")
    response.add_etag(weak=True)
    response.make_conditional(request)
    return response


def _lines(items: Iterator[Any], twin: Any) -> Iterator[bytes]:
    """Chunks of lines. What goes wrong before the first is raised at once; later on it is the last line."""
    first = list(islice(items, 1))
    return _chunks(chain(first, items), twin)


def _chunks(items: Iterator[Any], twin: Any) -> Iterator[bytes]:
    chunk = bytearray()
    try:
        for item in items:
            chunk += encode(item, twin) + b"\n"
            if len(chunk) >= CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
    except ChimbukoError as error:
        chunk += error_body(503, str(error)) + b"\n"
    except Exception:
        logging.getLogger("chimbuko.viz").exception("an answer broke off")
        chunk += error_body(500, "the answer broke off; the server's log says why") + b"\n"
    yield bytes(chunk)
