"""Answers compressed on their way out, whole ones and those that are still being made.

Flask-Compress packs each answer anew or needs a cache beside it; of a run with 10,000 ranks all pages ask
for the same.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from flask import Response
from werkzeug.datastructures import Accept

SMALLEST_BYTES = 1400
"""Less fits into one packet anyway."""
LEVEL = 5
MOST_KEPT = 32
LARGEST_KEPT_BYTES = 1_000_000
_GZIP_FORMAT = 31


def compressed(response: Response, accepted: Accept) -> Response:
    """The response, compressed where that pays: histories and scripts shrink to a quarter.

    Parameters
    ----------
    accepted
        Encodings that the client takes.
    """
    response.vary.add("Accept-Encoding")
    # A file to be saved may be large, and goes as it is: to squeeze it would hold it in memory.
    is_saved = response.headers.get("Content-Disposition", "").startswith("attachment")
    if response.status_code != 200 or is_saved or not accepted.quality("gzip"):
        return response
    if response.is_streamed and not response.direct_passthrough:
        response.response = _compressed_stream(response.iter_encoded())
    else:
        response.direct_passthrough = False
        body = response.get_data()
        if len(body) < SMALLEST_BYTES:
            return response
        response.set_data(_packed(body) if len(body) <= LARGEST_KEPT_BYTES else _pack(body))
    response.headers["Content-Encoding"] = "gzip"
    return response


def _pack(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)


_packed = lru_cache(MOST_KEPT)(_pack)
"""Answers that many ask for are packed once; they are the same object, whose hash is known."""


def _compressed_stream(chunks: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(LEVEL, wbits=_GZIP_FORMAT)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()
