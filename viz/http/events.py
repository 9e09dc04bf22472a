"""Live events, sent to pages over Socket.IO: the same update to all, and to each the steps that it
watches.

A page that does not read gets nothing more until it has read what waits for it, and then a frame that says
that something is missing. So what waits is bounded, and nobody waits for anybody.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from flask import request
from flask_socketio import SocketIO

from chimbuko.provenance.query.filters import as_object
from chimbuko.viz.api.endpoints.steps import step_row
from chimbuko.viz.api.parameters import rank_text
from chimbuko.viz.jobs.messagequeue import EVENTS
from chimbuko.viz.live.feed import Update

MOST_WATCHED = 64
"""Most ranks whose steps one page gets live: more than it can tell apart."""
MOST_WAITING = 16
"""Most packets that wait for one page: two seconds' worth, 100 kB."""
ALL_FRAMES = "frames"
"""Name of Socket.IO's room of the pages that keep up."""

_RANK = re.compile(r"\d{1,9}:\d{1,9}")

Watched = tuple[str, ...]


class Events:
    """Sender of updates to pages.

    Each message is encoded once for all pages of a room: one room gets all frames, and there is one for each
    set of watched ranks.
    """

    def __init__(self, sockets: SocketIO) -> None:
        self._sockets = sockets
        self._pages: dict[str, Watched] = {}
        self._behind: set[str] = set()
        self._lock = threading.Lock()
        self.on_gone: Callable[[str], None] = lambda page: None
        sockets.on_event("connect", self._connect, namespace=EVENTS)
        sockets.on_event("disconnect", self._disconnect, namespace=EVENTS)
        sockets.on_event("watch", self._watch, namespace=EVENTS)

    @property
    def pages(self) -> int:
        """Number of connected pages."""
        return len(self._pages)

    def send_away(self) -> None:
        """Disconnect all pages; they try to come back, and are told then why they cannot."""
        server = self._sockets.server
        for page in list(self._pages):
            link = server.eio.sockets.pop(server.manager.eio_sid_from_sid(page, EVENTS), None)
            if link is not None:
                # ``disconnect`` would wait until all is sent, which is for ever where the page has just gone.
                link.close(wait=False)

    def send(self, update: Update) -> None:
        """Send an update to all pages that keep up, and new steps to those that watch their ranks."""
        frame = _frame(update)
        with self._lock:
            caught_up = self._look_after_slow_pages()
            groups = {ranks for page, ranks in self._pages.items() if ranks and page not in self._behind}
        for page in caught_up:
            self._emit("frame", {**frame, "resync": True, "grid": None}, page)
        self._emit("frame", frame, ALL_FRAMES)
        # Of 10,000 ranks a page watches at most a few: only those are worth converting.
        wanted = {rank for ranks in groups for rank in ranks}
        texts = {rank_text(key): rows for key, rows in update.steps.items()}
        steps = {rank: [step_row(step) for step in texts[rank]] for rank in wanted & texts.keys()}
        for ranks in groups:
            if mine := {rank: steps[rank] for rank in ranks if rank in steps}:
                self._emit("steps", mine, _room(ranks))
        with self._lock:
            for page in caught_up:
                self._enter(page)

    def _emit(self, event: str, content: Any, room: str) -> None:
        self._sockets.emit(event, content, namespace=EVENTS, to=room)

    def _look_after_slow_pages(self) -> list[str]:
        """Remove pages that do not read from all rooms, and return those that have read everything since."""
        caught_up = []
        for page in self._pages:
            waiting = self._waiting(page)
            if page in self._behind:
                if waiting == 0:
                    self._behind.discard(page)
                    caught_up.append(page)
            elif waiting > MOST_WAITING:
                self._behind.add(page)
                self._leave(page)
        return caught_up

    def _waiting(self, page: str) -> int:
        """Return the number of packets that were sent to a page and not taken by its connection."""
        server = self._sockets.server
        socket = server.eio.sockets.get(server.manager.eio_sid_from_sid(page, EVENTS))
        return 0 if socket is None else int(socket.queue.qsize())

    def _enter(self, page: str) -> None:
        if page in self._pages:
            for room in (ALL_FRAMES, _room(self._pages[page])):
                self._sockets.server.enter_room(page, room, namespace=EVENTS)

    def _leave(self, page: str) -> None:
        for room in (ALL_FRAMES, _room(self._pages[page])):
            self._sockets.server.leave_room(page, room, namespace=EVENTS)

    def _connect(self, _auth: Any = None) -> None:
        with self._lock:
            self._pages[_page()] = ()
            self._enter(_page())

    def _disconnect(self, _reason: Any = None) -> None:
        with self._lock:
            self._pages.pop(_page(), None)
            self._behind.discard(_page())
        self.on_gone(_page())

    def _watch(self, ranks: Any) -> bool:
        """Replace the ranks that a page watches; the answer means that the history may be read now."""
        if not isinstance(ranks, list) or len(ranks) > MOST_WATCHED:
            return False
        if not all(isinstance(rank, str) and _RANK.fullmatch(rank) for rank in ranks):
            return False
        page = _page()
        with self._lock:
            if page not in self._pages:
                return False
            self._leave(page)
            self._pages[page] = tuple(sorted(set(ranks)))
            if page not in self._behind:
                self._enter(page)
        return True


def _frame(update: Update) -> dict[str, Any]:
    # The cells stay bytes: they are sent as they are.
    grid = None if update.grid is None else msgspec.structs.asdict(update.grid)
    return {"status": as_object(update.status), "resync": update.resync, "grid": grid}


def _room(ranks: Watched) -> str:
    return f"steps of {' '.join(ranks)}"


def _page() -> str:
    sid: str = request.sid  # type: ignore[attr-defined]
    return sid
