"""A TCP link that takes its time, between a client and a broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class SlowLink:
    """Passes bytes on ``delay_s`` seconds late, in each direction, and answers while they may; may be cut."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._pumps: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """End all connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """No connection any more."""
        # To close it would leave the thread that accepts waiting.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        self.may_answer.set()
        self.cut()
        for pump in self._pumps:
            pump.join()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for source, target, gate in ((near, far, None), (far, near, self.may_answer)):
                    pump = threading.Thread(target=self._pump, args=(source, target, gate), daemon=True)
                    pump.start()
                    self._pumps.append(pump)

    def _pump(self, source: socket.socket, target: socket.socket, gate: threading.Event | None) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self.delay_s)
                if gate is not None:
                    gate.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def slow_link(port: int) -> Iterator[SlowLink]:
    """A link to a port of this machine."""
    link = SlowLink(port)
    try:
        yield link
    finally:
        link.close()
