"""Nodes of a cluster on one machine: network namespaces, with a router between them.

The router has a namespace of its own, so that a cable can be pulled without taking a node's addresses away.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
SLOW_LINK = Path(__file__).with_name("slowlink.py")
_libc = ctypes.CDLL(None, use_errno=True)


class NotPermitted(Exception):
    """This machine does not let us make namespaces; with its own words."""


class Network:
    """Nodes ``0`` to ``nodes - 1``, each with an address, as a context.

    Raises
    ------
    NotPermitted
        On entering.
    """

    def __init__(self, nodes: int) -> None:
        self._router = f"chimbuko-{os.getpid()}-router"
        self._nodes = [f"chimbuko-{os.getpid()}-{node}" for node in range(nodes)]

    def __enter__(self) -> Network:
        try:
            self._build()
        except NotPermitted:
            self._remove()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._remove()

    def name(self, node: int) -> str:
        """Of its namespace."""
        return self._nodes[node]

    def address(self, node: int) -> str:
        """By which the other nodes reach it."""
        return f"10.111.{node}.1"

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """What this thread connects to, listens on and starts meanwhile is on that node."""
        with open("/proc/thread-self/ns/net") as outside:
            with open(Path("/run/netns") / self._nodes[node]) as namespace:
                _enter(namespace.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())

    @contextmanager
    def cable_pulled(self, node: int) -> Iterator[None]:
        """The node has no carrier: nothing goes out or comes in, and it knows."""
        _ip("-n", self._router, "link", "set", f"node{node}", "down")
        try:
            yield
        finally:
            _ip("-n", self._router, "link", "set", f"node{node}", "up")

    @contextmanager
    def swallowed(self, node: int) -> Iterator[None]:
        """What is sent to the node disappears, without a word to anybody; what it sends itself arrives."""
        where = f"{self.address(node)}/32"
        _ip("-n", self._router, "route", "add", "blackhole", where)
        try:
            yield
        finally:
            _ip("-n", self._router, "route", "del", "blackhole", where)

    @contextmanager
    def slow(self, node: int, delay_s: float, loss: float) -> Iterator[None]:
        """The node is far away: packets take so long each way, and this share of them is lost.

        Raises
        ------
        NotPermitted
            There are no TUN devices here.
        """
        name, device, address = self._nodes[node], f"slow{node}", self.address(node)
        places = [str(Path("/run/netns") / one) for one in (name, self._router)]
        words = [sys.executable, str(SLOW_LINK), *places, device, str(delay_s), str(loss)]
        link = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with link:
            try:
                assert link.stdout is not None and link.stderr is not None
                if link.stdout.readline() != "up\n":
                    raise NotPermitted(f"no slow link: {link.stderr.read().strip().splitlines()[-1]}")
                for place in (name, self._router):
                    _ip("-n", place, "link", "set", device, "up")
                _ip("-n", self._router, "route", "add", f"{address}/32", "dev", device)
                _ip("-n", name, "route", "replace", "default", "dev", device, "src", address)
                yield
            finally:
                # Its devices, and the routes by them, go with it.
                link.kill()
        _ip("-n", name, "route", "replace", "default", "via", self._gateway(node))

    def _gateway(self, node: int) -> str:
        return f"10.111.{node}.254"

    def _build(self) -> None:
        for name in (self._router, *self._nodes):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for node, name in enumerate(self._nodes):
            port, gateway = f"node{node}", self._gateway(node)
            _ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", port, "netns", self._router)
            for place, device, address in (
                (name, "eth0", self.address(node)),
                (self._router, port, gateway),
            ):
                _ip("-n", place, "address", "add", f"{address}/24", "dev", device)
                _ip("-n", place, "link", "set", device, "up")
            _ip("-n", name, "route", "add", "default", "via", gateway)
        _run("ip", "netns", "exec", self._router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    def _remove(self) -> None:
        for name in (self._router, *self._nodes):
            if (Path("/run/netns") / name).exists():
                _ip("netns", "delete", name)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotPermitted(f"{error.filename}: no such command") from error
    if done.returncode:
        raise NotPermitted(f"{' '.join(words)}: {done.stderr.strip()}")
