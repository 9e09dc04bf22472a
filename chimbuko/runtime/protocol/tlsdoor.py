"""Door of a broker for other nodes: it takes connections over TLS, and passes what is in them to the broker.

The broker that comes with us speaks no TLS itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from functools import partial

from chimbuko.runtime.process.lifetime import say_ready
from chimbuko.runtime.process.unnamedfile import unnamed_file

CERTIFICATE_VARIABLE = "CHIMBUKO_DOOR_CERTIFICATE"
"""Environment variable with certificate and private key, as PEM."""
HANDSHAKE_S = 10.0
"""Maximum time that a client may take for its handshake, in seconds."""
WAITING_CLIENTS = 1_000
"""Maximum number of clients that wait to be taken: the agents of a job come at the same time."""
_AT_ONCE = 1 << 16
_BUFFER_BYTES = 1 << 14
"""Size of a connection's buffer, that of a record of TLS: asyncio's own takes 256 kB for each agent."""


def main() -> None:
    """Serve until this process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--target", required=True, help="Path of the broker's socket, or its HOST:PORT.")
    options = parser.parse_args()
    context = _context(os.environ.pop(CERTIFICATE_VARIABLE))
    SSLProtocol.max_size = _BUFFER_BYTES
    asyncio.run(_serve(options.address, options.port, options.target, context))


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


async def _serve(address: str, port: int, target: str, context: ssl.SSLContext) -> None:
    server = await asyncio.start_server(
        partial(_pass_on, target),
        address,
        port,
        ssl=context,
        ssl_handshake_timeout=HANDSHAKE_S,
        backlog=WAITING_CLIENTS,
    )
    say_ready(port=server.sockets[0].getsockname()[1])
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
