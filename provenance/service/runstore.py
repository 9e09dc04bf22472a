"""Store of the run that is being written, open while it can be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import close, open_for_writing, put_aside
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import RunInfo


@dataclass(frozen=True)
class Destination:
    """Destination of the records of a run."""

    url: str
    """URL of the store."""
    run_id: str
    info: RunInfo | None = None
    """Description of the run, where the store is its own: a damaged one is put aside, and a new one begun
    with this."""
    severe_us: float | None = None
    """Severity from which on a call is told of as it is stored; None for no calls."""
    copy: Path | None = None
    """Place of a copy of the store on storage that other nodes share, made now and then."""
    is_urgent: Callable[[], bool] = lambda: False
    """Function that says whether this node may soon be gone, so that a copy is made at once."""


class RunStore:
    """Store of a run with its writer, opened when it is needed first, and again where it was let go of.

    Methods raise ``StoreError`` where the store cannot be used.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._open: tuple[Engine, Writer] | None = None

    def open(self) -> tuple[Engine, Writer]:
        """Open the store, where it is not open yet, and return it with its writer."""
        if self._open is None:
            engine = open_for_writing(self._destination.url)
            writer = Writer(engine, self._destination.run_id)
            self._open = engine, writer
            if self._destination.info is not None:
                writer.write_run(self._destination.info)
        return self._open

    @property
    def engine(self) -> Engine:
        """Engine of the open store."""
        return self.open()[0]

    @property
    def writer(self) -> Writer:
        """Writer of the open store."""
        return self.open()[1]

    def provenance(self) -> Provenance:
        """Return what is stored of the run."""
        return Provenance(self.engine, self._destination.run_id)

    def let_go(self, puts_aside: bool) -> str:
        """Let go of a damaged store, also as a user may put a whole file in its place.

        Parameters
        ----------
        puts_aside
            Whether its file is put aside, where that is possible; the path to which is returned.
        """
        if self._open is not None:
            self._open[0].dispose()
            self._open = None
        if not puts_aside:
            return ""
        try:
            return str(put_aside(self._destination.url))
        except OSError:
            return ""

    def close(self) -> None:
        """Close the store; all is in it."""
        close(self.engine)
