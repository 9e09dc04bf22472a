"""Door of a broker for other nodes: it takes connections over TLS, and passes what is in them to the broker.

The broker that comes with us speaks no TLS itself. Several processes take connections from one queue, as one
of them spends 0.8 ms of CPU time on each that comes, and 0.08 ms on each question.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from functools import partial

from chimbuko.core.files import unnamed_file
from chimbuko.runtime.process.lifetime import die_with_parent, say_ready

CERTIFICATE_VARIABLE = "CHIMBUKO_DOOR_CERTIFICATE"
"""Environment variable with certificate and private key, as PEM."""
HANDSHAKE_S = 10.0
"""Maximum time that a client may take for its handshake, in seconds."""
WAITING_CLIENTS = 4_096
"""Maximum number of clients that wait to be taken, if the system lets so many (``net.core.somaxconn``): the
agents of a job come at the same time.
"""
MOST_PROCESSES = 4
CORES_EACH = 4
"""Number of cores for which there is a process more."""
_AT_ONCE = 1 << 16
_BUFFER_BYTES = 1 << 14
"""Size of a connection's buffer, that of a record of TLS: asyncio's own takes 256 kB for each agent."""


def main() -> None:
    """Serve until this process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--target", required=True, help="Path of the broker's socket, or its HOST:PORT.")
    cores = len(os.sched_getaffinity(0))
    processes = min(1 + cores // CORES_EACH, MOST_PROCESSES)
    parser.add_argument("--processes", type=int, default=processes, help="Processes that take connections.")
    options = parser.parse_args()
    context = _context(os.environ.pop(CERTIFICATE_VARIABLE))
    SSLProtocol.max_size = _BUFFER_BYTES
    open_more_files()
    family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
    listening = socket.create_server((options.address, options.port), family=family, backlog=WAITING_CLIENTS)
    for _ in range(options.processes - 1):
        if os.fork() == 0:
            die_with_parent(signal.SIGKILL)
            break
    else:
        # Clients of a process that has ended come again: all of them begin anew, or each had more to do.
        signal.signal(signal.SIGCHLD, lambda *_: os._exit(1))
        say_ready(port=listening.getsockname()[1])
    asyncio.run(_serve(listening, options.target, context))


def open_more_files() -> None:
    """Let this process open as many files as it may: each connection takes two, and by default systems let
    one open 1,024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _context(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # It is taken from a file only: this one has no name.
    file = unnamed_file("certificate")
    try:
        os.write(file, certificate.encode())
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context


async def _serve(listening: socket.socket, target: str, context: ssl.SSLContext) -> None:
    server = await asyncio.start_server(
        partial(_pass_on, target),
        sock=listening,
        ssl=context,
        ssl_handshake_timeout=HANDSHAKE_S,
        backlog=WAITING_CLIENTS,
    )
    await server.serve_forever()


async def _pass_on(target: str, outside: asyncio.StreamReader, to_outside: asyncio.StreamWriter) -> None:
    """Pass on what comes from a client and what the broker answers, until either of them ends."""
    writers = [to_outside]
    copies: list[asyncio.Task[None]] = []
    try:
        inside, to_inside = await _connected(target)
        writers.append(to_inside)
        pairs = (outside, to_inside), (inside, to_outside)
        copies = [asyncio.create_task(_copy(source, to)) for source, to in pairs]
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    except OSError:
        # The broker is being started again: the client tries again, too.
        pass
    finally:
        for copy in copies:
            copy.cancel()
        for writer in writers:
            writer.close()


async def _connected(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if target.startswith("/"):
        return await asyncio.open_unix_connection(target)
    host, _, port = target.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_AT_ONCE):
            to.write(data)
            await to.drain()


if __name__ == "__main__":
    main()
