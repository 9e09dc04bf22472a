"""Certificates of a private authority, and a door that speaks TLS before a server that does not."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path


class Certificates:
    """A private certificate authority, and the certificate of a server at 127.0.0.1.

    Raises
    ------
    FileNotFoundError
        There is no ``openssl``.
    """

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            raise FileNotFoundError("no openssl to make certificates with: install the package openssl")
        self._folder = folder
        self.authority, self.certificate, self.key = (folder / name for name in ("ca.crt", "s.crt", "s.key"))
        names = folder / "names"
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        self._make(*new, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=Tests")
        self._make(*new, "-keyout", "s.key", "-out", "s.csr", "-subj", "/CN=localhost")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        self._make("x509", "-req", "-in", "s.csr", *signed, "-out", "s.crt")

    def _make(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True)


class TlsDoor:
    """Takes connections over TLS, and passes what is in them to a port of this machine.

    The server that comes with us speaks no TLS: in front of it this is what clients find at a site's.
    """

    def __init__(self, certificates: Certificates, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.certificate, certificates.key)
        self._behind = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.taken = 0
        """Connections that were encrypted."""
        threading.Thread(target=self._take, daemon=True).start()

    def close(self) -> None:
        """Take no further connections."""
        self._listening.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                raw, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(raw,), daemon=True).start()

    def _pass_on(self, raw: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(raw, server_side=True) as outside:
            self.taken += 1
            with socket.create_connection(("127.0.0.1", self._behind)) as inside:
                threading.Thread(target=_copy, args=(inside, outside), daemon=True).start()
                _copy(outside, inside)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
