"""A slow and lossy link between two network namespaces: a program that carries packets from one to the other.

``python slowlink.py HERE THERE DEVICE DELAY_S LOSS`` makes a TUN device of the same name in both namespaces
(files below /run/netns), says ``up``, and carries until it is killed. It works where the kernel has no netem.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import queue
import random
import struct
import sys
import threading
import time
from contextlib import suppress

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x1, 0x1000
_MOST_BYTES = 65_535
MOST_WAITING = 5_000
"""Packets under way in one direction; more are dropped, as by a full queue."""

_libc = ctypes.CDLL(None, use_errno=True)


def make_device(namespace: str, name: str) -> int:
    """A TUN device in a namespace; the descriptor that has its packets."""
    with open(namespace) as entered:
        if _libc.setns(entered.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"{namespace} cannot be entered")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


class Direction:
    """One way of the link.

    Parameters
    ----------
    source, target
        Descriptors of TUN devices.
    loss
        Share of packets that never arrive.
    chance
        Decides which.
    """

    def __init__(self, source: int, target: int, delay_s: float, loss: float, chance: random.Random) -> None:
        self._source, self._target = source, target
        self._delay_s, self._loss, self._chance = delay_s, loss, chance
        self._waiting: queue.Queue[tuple[float, bytes]] = queue.Queue()

    def start(self) -> None:
        """Carry from now on, in threads of its own."""
        for work in (self._take, self._hand_over):
            threading.Thread(target=work, daemon=True).start()

    def _take(self) -> None:
        while True:
            packet = os.read(self._source, _MOST_BYTES)
            is_lost = self._chance.random() < self._loss or self._waiting.qsize() >= MOST_WAITING
            if not is_lost:
                self._waiting.put((time.monotonic() + self._delay_s, packet))

    def _hand_over(self) -> None:
        while True:
            due_s, packet = self._waiting.get()
            time.sleep(max(due_s - time.monotonic(), 0.0))
            # While the other end is down its packets are lost.
            with suppress(OSError):
                os.write(self._target, packet)


def main() -> None:
    """Carry packets until killed."""
    here, there, name, delay_s, loss = sys.argv[1:]
    devices = [make_device(namespace, name) for namespace in (here, there)]
    # The same packets are lost each time, as far as they come in the same order.
    for seed, (source, target) in enumerate((devices, devices[::-1])):
        Direction(source, target, float(delay_s), float(loss), random.Random(seed)).start()
    print("up", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
