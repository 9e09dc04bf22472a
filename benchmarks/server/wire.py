"""Thousands of connections to a broker from one thread: redis-py would take several cores for them.

Each connection leads a *life*, a generator. It yields either a moment (of ``time.monotonic``) to wait for,
or requests, and gets their replies.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
from numba import njit

Reply = bytes | int | None | list["Reply"]


@dataclass(frozen=True)
class Requests:
    """Encoded commands that are sent together, and how many they are."""

    encoded: bytes
    count: int = 1
    is_opaque: bool = False
    """Instead of each reply its size is given, in bytes."""


Life = Generator[float | Requests, list[Any], None]

RECEIVE_BYTES = 1 << 18


def command(*words: bytes) -> bytes:
    """One encoded command."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class BrokerRefusal(Exception):
    """The broker answered with an error."""


class _Incomplete(Exception):
    pass


def parsed(buffer: bytes | bytearray, at: int) -> tuple[Reply, int]:
    """The reply that begins at ``at``, and where the next one does."""
    end = buffer.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete
    kind, head = buffer[at], buffer[at + 1 : end]
    at = end + 2
    if kind == 0x24:  # $
        size = int(head)
        if size < 0:
            return None, at
        if len(buffer) < at + size + 2:
            raise _Incomplete
        return bytes(buffer[at : at + size]), at + size + 2
    if kind == 0x3A:  # :
        return int(head), at
    if kind == 0x2B:  # +
        return bytes(head), at
    if kind == 0x2A:  # *
        if head == b"-1":
            return None, at
        members: list[Reply] = []
        for _ in range(int(head)):
            member, at = parsed(buffer, at)
            members.append(member)
        return members, at
    raise BrokerRefusal(head.decode(errors="replace"))


def _skipped(buffer: bytes | bytearray, at: int) -> tuple[Reply, int]:
    """Size of the reply that begins at ``at``, and where the next one does."""
    end = end_of_reply(np.frombuffer(buffer, np.uint8).copy(), at)
    if end == -1:
        raise _Incomplete
    if end == -2:
        raise BrokerRefusal(bytes(buffer[at : at + 200]).decode(errors="replace"))
    return end - at, end


@njit(cache=True, nogil=True)
def end_of_reply(buffer: npt.NDArray[np.uint8], at: int) -> int:
    """Where the reply that begins at ``at`` ends; -1 where it is not complete, -2 where it is an error."""
    left = 1
    while left > 0:
        end = at
        while end + 1 < len(buffer) and not (buffer[end] == 13 and buffer[end + 1] == 10):
            end += 1
        if end + 1 >= len(buffer):
            return -1
        kind = buffer[at]
        if kind == 45:  # -
            return -2
        left -= 1
        number = 0
        if kind == 36 or kind == 42:  # $ or *
            for digit in buffer[at + 1 : end]:
                number = -1 if digit == 45 else number * 10 + digit - 48
                if number < 0:
                    break
        at = end + 2
        if kind == 36 and number >= 0:
            at += number + 2
        elif kind == 42 and number > 0:
            left += number
    return at if at <= len(buffer) else -1


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    life: Life
    received: bytearray = field(default_factory=bytearray)
    replies: list[Reply] = field(default_factory=list)
    parsed_to: int = 0
    expected: int = 0
    is_opaque: bool = False
    unsent: bytes = b""
    is_blocked: bool = False


class Wire:
    """All connections of this process, and how many bytes went over them."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path if parts.scheme == "unix" else ""
        self._address = parts.hostname or "127.0.0.1", parts.port or 6379
        secret = [unquote(part).encode() for part in (parts.username, parts.password) if part]
        self._login = command(b"AUTH", *secret) if secret else b""
        self._epoll = select.epoll()
        self._connections: dict[int, _Connection] = {}
        self._waiting: list[tuple[float, int]] = []
        self._runnable: deque[_Connection] = deque()
        self.sent_bytes = 0
        self.received_bytes = 0
        # Compiled before anything is measured.
        end_of_reply(np.zeros(1, np.uint8), 0)

    def connect(self, life: Life) -> None:
        """Open one more connection; its life begins with the next ``run``."""
        if self._path:
            opened = socket.socket(socket.AF_UNIX)
            opened.connect(self._path)
        else:
            opened = socket.create_connection(self._address)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._login:
            opened.sendall(self._login)
            if not opened.recv(RECEIVE_BYTES).startswith(b"+OK"):
                raise BrokerRefusal("the password is wrong")
        opened.setblocking(False)
        connection = _Connection(opened, life)
        self._connections[opened.fileno()] = connection
        self._epoll.register(opened.fileno(), select.EPOLLIN)
        self._runnable.append(connection)

    def run(self) -> None:
        """Until all lives have ended."""
        while self._connections:
            while self._runnable:
                self._advance(self._runnable.popleft(), [])
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, descriptor = heapq.heappop(self._waiting)
                self._advance(self._connections[descriptor], [])
                now = time.monotonic()
            patience_s = max(self._waiting[0][0] - now, 0.0) if self._waiting else None
            if not self._connections:
                break
            for descriptor, event in self._epoll.poll(patience_s):
                connection = self._connections[descriptor]
                if event & select.EPOLLOUT:
                    self._send(connection)
                if event & ~select.EPOLLOUT:
                    self._receive(connection)
        self._epoll.close()

    def _advance(self, connection: _Connection, replies: list[Reply]) -> None:
        try:
            wish = connection.life.send(replies or None)  # type: ignore[arg-type]
        except StopIteration:
            self._close(connection)
            return
        if isinstance(wish, float):
            heapq.heappush(self._waiting, (wish, connection.socket.fileno()))
            return
        connection.expected, connection.is_opaque = wish.count, wish.is_opaque
        connection.unsent = wish.encoded
        self.sent_bytes += len(wish.encoded)
        self._send(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        connection.unsent = connection.unsent[sent:]
        is_blocked = bool(connection.unsent)
        if is_blocked != connection.is_blocked:
            connection.is_blocked = is_blocked
            events = select.EPOLLIN | (select.EPOLLOUT if is_blocked else 0)
            self._epoll.modify(connection.socket.fileno(), events)

    def _receive(self, connection: _Connection) -> None:
        chunk = connection.socket.recv(RECEIVE_BYTES)
        if not chunk:
            raise ConnectionError("the broker closed a connection")
        self.received_bytes += len(chunk)
        connection.received += chunk
        replies = connection.replies
        try:
            while len(replies) < connection.expected:
                take = _skipped if connection.is_opaque else parsed
                reply, connection.parsed_to = take(connection.received, connection.parsed_to)
                replies.append(reply)
        except _Incomplete:
            return
        connection.received.clear()
        connection.parsed_to = 0
        connection.replies = []
        self._advance(connection, replies)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.socket.fileno()]
        self._epoll.unregister(connection.socket.fileno())
        connection.socket.close()
