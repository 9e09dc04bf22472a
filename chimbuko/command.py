"""The command ``chimbuko``: Ctrl-C ends it at any moment, without a traceback.

Not in ``__main__``, whose names a traced program takes over.
"""

# Its wrapper takes 5 ms to load, in which Ctrl-C would give a traceback.
import _signal  # type: ignore[import-not-found]

_TRACEBACK = _signal.default_int_handler
_heeded = _signal.getsignal(_signal.SIGINT)


def _end_at_once() -> None:
    """Nothing has begun yet, or all is done. A background job of a shell, which ignores it, goes on."""
    if _heeded is _TRACEBACK:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def start() -> None:
    """Start the command line tool."""
    try:
        from chimbuko.cli import start

        start(lambda: _signal.signal(_signal.SIGINT, _heeded))
    finally:
        _end_at_once()


_end_at_once()
