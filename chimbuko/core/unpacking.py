"""Decompression with a bound: a few kilobytes of an archive from elsewhere could fill the memory."""

from __future__ import annotations

import zlib

from chimbuko.core.errors import StoreError

MOST_BYTES = 256 << 20
"""Largest size of what is unpacked, in bytes: the report of a run with 100,000 functions takes 60 MB."""
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


def unpacked(data: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what was packed by zlib or gzip.

    Raises
    ------
    StoreError
        It is damaged or cut off, or larger than ``most_bytes``.
    """
    unpacking = zlib.decompressobj(_ZLIB_OR_GZIP)
    try:
        whole = unpacking.decompress(data, most_bytes)
    except zlib.error as error:
        raise StoreError(f"damaged ({error})") from error
    if unpacking.eof:
        return whole
    if len(whole) == most_bytes:
        raise StoreError(f"damaged: unpacked it would be larger than {most_bytes >> 20} MB")
    raise StoreError("damaged (it is cut off)")
