"""Serving of endpoints: requests are read, and answered with objects, or with lines as they come.

Answers that many ask for at the same time: each is made once, and given to all of them.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec
from flask import Blueprint, Response, abort, request
from werkzeug.datastructures import MultiDict

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.viz.api.endpoint import Endpoint, ServedRun, encode, error_body
from chimbuko.viz.api.openapi import LINES, ROOT, document
from chimbuko.viz.api.parameters import read_parameters

LASTS_S = 0.5
"""Time in seconds for which an answer is shared: a page asks again every two seconds, so 100 of them ask the
same 50 times a second.
"""


MOST_KEPT = 4
"""Most answers that are kept because nothing has changed: the largest, of 30,000 points, takes 3.7 MB."""


class _Held(NamedTuple):
    """Answer to a question, which may still be in the making."""

    begun_s: float
    state: Hashable
    """State of the store that it was made of; None where that may change at any time."""
    answer: Future[bytes]


class SharedAnswers:
    """Answers that are shared for a moment, or as long as their store stays the same, by question.

    Failures are not kept.

    Parameters
    ----------
    lasts_s
        Greatest age of an answer of unknown state, from when it was begun.
    """

    def __init__(self, lasts_s: float = LASTS_S) -> None:
        self._lasts_s = lasts_s
        self._lock = threading.Lock()
        self._answers: dict[Hashable, _Held] = {}

    def get(self, question: Hashable, make: Callable[[], bytes], state: Hashable = None) -> bytes:
        """Return the answer that is there, or is being made, or is made now.

        Parameters
        ----------
        state
            State of what the answer is made of, read before; None where that may change at any time.
        """
        now_s = time.monotonic()
        with self._lock:
            self._forget_old(now_s)
            held = self._answers.get(question)
            is_mine = held is None or (self._is_old(held, now_s) and held.state != state)
            if held is None or is_mine:
                # The newest stands last.
                self._answers.pop(question, None)
                held = self._answers[question] = _Held(now_s, state, Future())
        if is_mine:
            try:
                held.answer.set_result(make())
            except BaseException as error:
                held.answer.set_exception(error)
                with self._lock:
                    if self._answers.get(question) is held:
                        del self._answers[question]
        return held.answer.result()

    def _is_old(self, held: _Held, now_s: float) -> bool:
        return now_s - held.begun_s >= self._lasts_s

    def _forget_old(self, now_s: float) -> None:
        old = [question for question, held in self._answers.items() if self._is_old(held, now_s)]
        kept = [question for question in old if self._answers[question].state is not None][-MOST_KEPT:]
        for question in set(old) - set(kept):
            del self._answers[question]

    def forget(self) -> None:
        """Forget all answers: what they say has changed."""
        with self._lock:
            self._answers.clear()


CHUNK_BYTES = 65_536
"""Bytes of lines that are sent together: about what a connection takes at once."""


def make_api(run: ServedRun, endpoints: Sequence[Endpoint]) -> Blueprint:
    """Return the API of one run, and the document that describes it."""
    api = Blueprint("api", __name__, url_prefix=ROOT)
    description = msgspec.json.encode(document(endpoints))
    shared = SharedAnswers()
    for endpoint in endpoints:
        rule = re.sub("{(.*?)}", r"<\1>", endpoint.path)
        if endpoint.is_write:
            api.add_url_rule(rule, endpoint.name, _writing(run, endpoint, shared), methods=["POST"])
        else:
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
        state = None if endpoint.state is None else endpoint.state(run, wanted)
        return _json(shared.get(question, lambda: encode(endpoint.ask(run, wanted), endpoint.answer), state))

    return view


def _writing(run: ServedRun, endpoint: Endpoint, shared: SharedAnswers) -> Any:
    def view() -> Response:
        _refuse_others()
        try:
            wanted = msgspec.json.decode(request.get_data(), type=endpoint.parameters)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"the body cannot be used: {error}") from None
        answer = endpoint.ask(run, wanted)
        shared.forget()
        return Response(encode(answer, endpoint.answer), mimetype="application/json")

    return view


def _refuse_others() -> None:
    """Refuse what another site makes a browser send with our cookie, which is strict, besides.

    A form of another site cannot say that it sends JSON, and its scripts would have to be allowed to.
    Browsers say where a request comes from.
    """
    is_ours = request.headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")
    if not (is_ours and request.mimetype == "application/json"):
        abort(403, "Only the dashboard's own page, or a program, may write, and as application/json.")


def _json(body: bytes) -> Response:
    """Return an answer that is not sent again to clients that have it."""
    response = Response(body, mimetype="application/json")
    response.add_etag(weak=True)
    response.make_conditional(request)
    return response


def _lines(items: Iterator[Any], twin: Any) -> Iterator[bytes]:
    """Yield chunks of lines. Errors before the first line are raised at once; a later error is the last
    line.
    """
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
