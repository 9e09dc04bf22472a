"""A PostgreSQL server of the tests' own, which can die."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

from chimbuko.monitor.sampling.identity import start_ticks_of
from chimbuko.provenance.store.engine import close, open_for_writing
from tests.encrypted import Certificates
from tests.sockets import free_ports

PASSWORD = "hush"
"""Of its user ``postgres``."""
_COPIED = "the_schema"
"""In the script that makes a store, the name of its schema."""


PREFIX = "chimbuko-postgresql-"
"""Of a server's folder; it goes on with the process that has made it, and that one's start."""


class NotInstalled(Exception):
    """There is no PostgreSQL to start, or nobody to start it as."""


class PostgresqlServer:
    """A server with an empty database ``postgres``, on a port of its own.

    Parameters
    ----------
    certificates
        For a server that speaks TLS, too.
    like
        Folder in which another one was kept: to begin with what that held takes a tenth of the time.

    Raises
    ------
    NotInstalled
        It takes Debian's package postgresql, and root.
    """

    def __init__(self, certificates: Certificates | None = None, like: Path | None = None) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not programs or shutil.which("runuser") is None or os.geteuid() != 0:
            raise NotInstalled(
                "no PostgreSQL server can be started: it takes root, and apt-get install postgresql"
            )
        for folder in left_behind():
            _remove(programs[-1] / "pg_ctl", folder)
        # Not under pytest's folder, which only its owner may enter.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}.{start_ticks_of(os.getpid())}-"))
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
        [self._port] = free_ports(1)
        self._address = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self._port}/postgres"
        self._script = ""
        if like is None:
            self._control("-o", f"-A scram-sha-256 -E UTF8 --locale=C.UTF-8 --pwfile={password}", "initdb")
        else:
            subprocess.run(["cp", "-a", like / "data", self._data], check=True)
            self._script = (like / "script").read_text()
        self.start()

    @property
    def url(self) -> str:
        """As a store."""
        return self._address.replace("postgresql:", "postgresql+psycopg:")

    def new_schema(self) -> str:
        """An empty schema, as a store: it costs less than a database."""
        name = f"test_{uuid.uuid4().hex}"
        self._execute(f"CREATE SCHEMA {name}")
        return self._store(name)

    def new_store(self) -> str:
        """A store in which nothing is stored: a copy, for to make one takes twice as long."""
        self._make_script()
        name = f"test_{uuid.uuid4().hex}"
        self._execute(self._script.replace(_COPIED, name))
        return self._store(name)

    def by_socket(self, store: str) -> str:
        """The same store by way of a socket in the file system, which other network namespaces see, too."""
        place, _, options = store.partition("?")
        return (
            f"{place.replace(f'127.0.0.1:{self._port}', '')}?host={self.folder}&port={self._port}&{options}"
        )

    def _make_script(self) -> None:
        if not self._script:
            made = self.new_schema()
            close(open_for_writing(made))
            self._script = self._dumped(made.rpartition("%3D")[2])

    def _store(self, schema: str) -> str:
        return f"{self.url}?options=-csearch_path%3D{schema}"

    def _execute(self, script: str) -> None:
        # Not where each process that collects tests would load it.
        import psycopg

        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(script)

    def _dumped(self, schema: str) -> str:
        """A script that makes such a schema again, by the name ``_COPIED``."""
        words = ("--no-owner", "--inserts", "--schema", schema, "--dbname", self._address)
        done = subprocess.run(
            [self._program.with_name("pg_dump"), *words], check=True, capture_output=True, text=True
        )
        # What begins with a backslash is for psql.
        lines = (line for line in done.stdout.splitlines() if not line.startswith("\\"))
        return "\n".join(lines).replace(schema, _COPIED)

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

    def keep(self, folder: Path) -> None:
        """Stop it, and leave what it held in a folder, for others that begin with that."""
        self._make_script()
        self._control("-m", "fast", "stop")
        folder.mkdir()
        (folder / "script").write_text(self._script)
        subprocess.run(["cp", "-a", self._data, folder / "data"], check=True)
        self.remove()

    def remove(self) -> None:
        """Stop it, and remove all that it held."""
        _remove(self._program, self.folder)

    def _control(self, *words: str, check: bool = True) -> None:
        done = _controlled(self._program, self._data, *words)
        log = self.folder / "log"
        assert not (check and done.returncode), log.read_text() if log.exists() else "initdb failed"


def left_behind(parent: Path | None = None) -> list[Path]:
    """Folders of servers whose process was killed before it could remove them."""
    found = []
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*.*-*"):
        pid, _, start = folder.name.removeprefix(PREFIX).partition("-")[0].partition(".")
        with suppress(OSError, ValueError):
            is_ours = folder.lstat().st_uid == pwd.getpwnam("postgres").pw_uid and not folder.is_symlink()
            if is_ours and start_ticks_of(int(pid)) != int(start):
                found.append(folder)
    return found


def _remove(program: Path, folder: Path) -> None:
    """Stop the server of a folder, where it runs, and remove that."""
    _controlled(program, folder / "data", "-m", "immediate", "stop")
    # Another process may do the same.
    shutil.rmtree(folder, ignore_errors=True)


def _controlled(program: Path, data: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = ["runuser", "-u", "postgres", "--", str(program), "-D", str(data), "-w", *words]
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd="/")
