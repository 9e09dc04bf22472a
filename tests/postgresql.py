"""A PostgreSQL server of the tests' own, which can die."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path

import sqlalchemy

from tests.encrypted import Certificates

PASSWORD = "hush"
"""Of its user ``postgres``."""


class NotInstalled(Exception):
    """There is no PostgreSQL to start, or nobody to start it as."""


class PostgresqlServer:
    """A server with an empty database ``postgres``, on a port of its own.

    Parameters
    ----------
    certificates
        For a server that speaks TLS, too.

    Raises
    ------
    NotInstalled
        It takes Debian's package postgresql, and root.
    """

    def __init__(self, certificates: Certificates | None = None) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not programs or shutil.which("runuser") is None or os.geteuid() != 0:
            raise NotInstalled(
                "no PostgreSQL server to start: it takes Debian's package postgresql, and root"
            )
        # Not under pytest's folder, which only its owner may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="chimbuko-postgresql-"))
        self._data = self.folder / "data"
        self._program = programs[-1] / "pg_ctl"
        password = self.folder / "password"
        password.write_text(PASSWORD)
        shutil.chown(self.folder, "postgres")
        shutil.chown(password, "postgres")
        self._settings = "-c fsync=off"
        if certificates is not None:
            for source, name in ((certificates.certificate, "s.crt"), (certificates.key, "s.key")):
                shutil.copyfile(source, self.folder / name)
                (self.folder / name).chmod(0o600)
                shutil.chown(self.folder / name, "postgres")
            own = f"-c ssl_cert_file={self.folder}/s.crt -c ssl_key_file={self.folder}/s.key"
            self._settings += f" -c ssl=on {own}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._control("-o", f"-A scram-sha-256 -E UTF8 --locale=C.UTF-8 --pwfile={password}", "initdb")
        self.start()

    @property
    def url(self) -> str:
        """As a store."""
        return f"postgresql+psycopg://postgres:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    def new_schema(self) -> str:
        """An empty schema, as a store: it costs less than a database."""
        name = f"test_{uuid.uuid4().hex}"
        engine = sqlalchemy.create_engine(self.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        engine.dispose()
        return f"{self.url}?options=-csearch_path%3D{name}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = f"-c listen_addresses=127.0.0.1 -c port={self._port} {self._settings} -k {self.folder}"
        self._control("-o", settings, "-l", str(self.folder / "log"), "start")

    def kill(self) -> None:
        """kill -9 of the whole server; what it had not committed is gone."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        # Where nobody collects dead processes they would count as running.
        for claim in (self._data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            claim.unlink()

    def remove(self) -> None:
        """Stop it, and remove all that it held."""
        self._control("-m", "immediate", "stop", check=False)
        shutil.rmtree(self.folder)

    def _control(self, *words: str, check: bool = True) -> None:
        command = ["runuser", "-u", "postgres", "--", str(self._program), "-D", str(self._data), "-w", *words]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd="/")
        log = self.folder / "log"
        assert not (check and done.returncode), log.read_text() if log.exists() else "initdb failed"
