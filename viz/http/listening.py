"""Address of a dashboard: where it listens, and by which names and URL browsers reach it."""

from __future__ import annotations

import ipaddress
import os
import platform
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import msgspec

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.runtime.protocol.brokerplace import LOOPBACK, address_of
from chimbuko.runtime.runs.directory import kept_token

if TYPE_CHECKING:
    import ssl

TOKEN_VARIABLE = "CHIMBUKO_TOKEN"
"""Environment variable with the token."""
KEY_VARIABLE = "CHIMBUKO_COOKIE_KEY"
"""Environment variable with the key of the cookies, in hex, for processes that serve one port."""
SHORTEST_TOKEN = 16
"""Least characters of a token for a dashboard that others reach: fewer can be guessed."""
EVERYWHERE = "0.0.0.0"


class Front(msgspec.Struct, frozen=True):
    """Front of a dashboard towards browsers: addresses, TLS and token."""

    bind: str = LOOPBACK
    """Address, network interface, or name of this host on which to listen; ``0.0.0.0`` for all."""
    certificate: Path | None = None
    """Certificate chain in PEM, for TLS; None for none."""
    key: Path | None = None
    """Key of the certificate; None if it is in the same file."""
    public_url: str = ""
    """URL by which browsers reach the dashboard: through a proxy, or a port of a container. Empty for
    ``bind`` and the port.
    """

    def listen(self, port: int) -> socket.socket:
        """Return a socket that listens; port 0 takes any that is free.

        Raises
        ------
        ConfigError
            There is no such address, or something given cannot be used.
        ServiceError
            The port is taken.
        """
        self.tls()
        if self.public_url and urlsplit(self.public_url).scheme not in ("http", "https"):
            raise ConfigError(
                f"{self.public_url}: not the address of a page; give one like https://HOST/PATH/"
            )
        # Bound here because Werkzeug would end the process on a port that is taken.
        try:
            return socket.create_server((self.address, port))
        except OSError as error:
            raise ServiceError(
                f"port {port} of {self.address} cannot be used ({error.strerror}); "
                "choose another with --port, 0 takes any"
            ) from None

    def token(self, kept: Path) -> str:
        """Return the token in the environment, or else the one that is kept in that file, from its first use
        on.

        So pages go on by themselves when their server is started again.

        Raises
        ------
        ConfigError
            It is too short for a dashboard that others reach.
        """
        given = os.environ.get(TOKEN_VARIABLE)
        is_for_others = bool(self.public_url) or not ipaddress.ip_address(self.address).is_loopback
        if is_for_others and given and len(given) < SHORTEST_TOKEN:
            raise ConfigError(
                f"{TOKEN_VARIABLE}: others reach this dashboard; give a token of {SHORTEST_TOKEN} characters "
                "or more, or none for one of ours"
            )
        return given or kept_token(kept)

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context for connections of browsers; None if they are not encrypted.

        Raises
        ------
        ConfigError
            Certificate or key cannot be used.
        """
        if self.certificate is None:
            if self.key is not None:
                raise ConfigError(f"{self.key}: a key without a certificate")
            return None
        # Here, as each run loads this module, and few speak TLS.
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise ConfigError(
                f"{self.certificate}: no certificate with its key, both in PEM ({error.strerror or error})"
            ) from None
        return context

    @property
    def address(self) -> str:
        """Return the IPv4 address on which to listen."""
        return address_of(self.bind)

    @property
    def names(self) -> frozenset[str]:
        """Return the names by which browsers may call the dashboard, beside those of the loopback."""
        found = {self.bind, self.address, urlsplit(self.public_url).hostname or ""}
        return frozenset((found | ({platform.node()} if self.bind != LOOPBACK else set())) - {""})

    def url(self, port: int, token: str) -> str:
        """Return the URL of the page with the token."""
        host = platform.node() if self.address == EVERYWHERE else self.address
        scheme = "https" if self.certificate else "http"
        root = self.public_url.rstrip("/") or f"{scheme}://{host}:{port}"
        return f"{root}/?token={quote(token, safe='')}"

    def words(self) -> list[str]:
        """Return the options for a process that serves the dashboard."""
        given = {
            "--bind": self.bind,
            "--certificate": self.certificate,
            "--key": self.key,
            "--public-url": self.public_url or None,
        }
        return [str(word) for option in given.items() if option[1] is not None for word in option]
