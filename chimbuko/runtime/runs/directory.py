"""Folder of one run, with its files and its secrets, each in a file that only its owner can read."""

from __future__ import annotations

import os
import platform
import re
import secrets
import stat
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from chimbuko import __version__
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.core.files import contents, write_atomically
from chimbuko.core.names import visible
from chimbuko.core.redaction import without_secrets
from chimbuko.core.unpacking import unpacked
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE, is_named, note_named


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whatever was there; a reader sees all of the text."""
    write_atomically(path, text.encode(), mode=0o600)


def kept_token(path: Path, given: str | None = None) -> str:
    """Return a token that stays the same: the given one, or the one that is kept there, or else a new one.

    Where it cannot be kept, as in the folder of somebody else, it is a new one each time. A file of somebody
    else is no token of ours.
    """
    token = given or _found(path) or secrets.token_urlsafe(24)
    with suppress(OSError):
        write_secret(path, token)
    return token


def _found(path: Path) -> str:
    with suppress(OSError, ValueError):
        file = path.lstat()
        if stat.S_ISREG(file.st_mode) and file.st_uid == os.geteuid() and not file.st_mode & 0o077:
            return path.read_text()
    return ""


RUNS_FOLDER = Path("chimbuko-runs")
"""Folder where runs go, and are looked for, unless another folder is named; relative to the current folder.
"""

PAGE_TOKEN = "page-token"
"""Name of the file of a run, or of a folder of runs, with the token that browsers have to bring."""

RESCUED = "rescued"
"""Name of the folder of a run with one folder for each node whose agent could not deliver all its findings.
"""

NEVER_STARTED = (126, 127)
"""Exit codes of a command that cannot be run, or does not exist."""

FAILED = "failed"
"""State of a run whose analysis could not begin; its program, if it has one, ran without it."""

MOST_INFO_BYTES = 16 << 20
"""Largest ``run.json``: command lines and environments have 2 MB at most, which JSON may write sixfold."""

LONGEST_NAME_BYTES = 200
"""Maximum length of a run's name: file systems take 255 bytes, and a folder that is being made has a longer
name.
"""


class RunInfo(msgspec.Struct, frozen=True):
    """Description of a run, written at its start, and again at its end."""

    id: str
    name: str
    command: list[str]
    state: str
    """State: ``running``, ``finished`` (the application ended), ``interrupted``, ``failed`` or ``imported``.
    """
    started_us: int
    ended_us: int
    """Time of the end; 0 while the run goes on."""
    exit_code: int | None
    """Exit code of the application; None while it runs and for recorded traces."""
    host: str
    store_url: str
    """URL of the store as it may be shown: without a password."""
    config: AnalysisConfig
    version: str
    trace_bytes: int = 0
    stored_bytes: int = 0
    transport: str = ""
    """Transport of the streams: ``files``, ``sst`` or ``recorded``; empty if nobody knows any more."""
    environment: dict[str, str] = {}
    """Variables and versions that say how the run was started; no secrets."""

    @property
    def has_started(self) -> bool:
        """Whether there was a program: one that ends with such a code itself has left a trace."""
        return self.state != FAILED and (self.exit_code not in NEVER_STARTED or self.trace_bytes > 0)


class RunDirectory(msgspec.Struct, frozen=True):
    """Paths inside the folder of one run."""

    path: Path

    @property
    def info_path(self) -> Path:
        """Path of ``RunInfo`` as JSON."""
        return self.path / "run.json"

    @property
    def store_path(self) -> Path:
        """Path of the embedded provenance database."""
        return self.path / "provenance.sqlite"

    @property
    def store_url(self) -> str:
        """URL of the embedded provenance database."""
        return f"sqlite:///{self.store_path}"

    @property
    def model_path(self) -> Path:
        """Path of the model of the run, written at its end."""
        return self.path / "model.msgpack"

    @property
    def prior_path(self) -> Path:
        """Path of the model that the run began with, where that is of its series."""
        return self.path / "prior.msgpack"

    @property
    def report_path(self) -> Path:
        """Path of the final report of the parameter server, as JSON in gzip."""
        return self.path / "report.json.gz"

    def read_report(self) -> bytes:
        """Return the JSON of the report.

        Raises
        ------
        OSError
            There is no report, or it is damaged.
        """
        try:
            return unpacked(contents(self.report_path))
        except StoreError as error:
            raise OSError(f"{self.report_path}: {error}") from error

    @property
    def logs(self) -> Path:
        """Folder with one log per process of ours."""
        return self.path / "logs"

    @property
    def trace(self) -> Path:
        """Folder where the application's streams meet ours (SST contact files)."""
        return self.path / "trace"

    @property
    def recorded_path(self) -> Path:
        """Path of the list of the recorded streams that the run was made of, as ``recordedstreams`` writes
        it.
        """
        return self.path / "recorded.json"

    @property
    def timelines(self) -> Path:
        """Folder with indexes of recorded streams, by which any part of their timelines is found at once."""
        return self.path / "timelines"

    @property
    def observed_path(self) -> Path:
        """Path of the data for charts of what was published in the run (``namespaces.views``)."""
        return self.path / "observed.msgpack"

    @property
    def shares(self) -> Path:
        """Folder with the shares of recorded streams, by the agents that have them
        (``chimbuko.runtime.runs.shares``).
        """
        return self.path / "shares"

    @property
    def broker_path(self) -> Path:
        """Path of the URL of the broker while the run goes on; it holds the password, and is the owner's
        alone.
        """
        return self.path / "broker"

    def write_broker_url(self, url: str) -> None:
        """Write the broker's URL for processes that look into the run, or take part in it, while it goes
        on.
        """
        write_secret(self.broker_path, url)

    def read_broker_url(self) -> str:
        """Return the URL of the broker.

        Raises
        ------
        ConfigError
            The run has ended.
        """
        try:
            return contents(self.broker_path).decode()
        except FileNotFoundError:
            raise ConfigError(
                f"{self.path}: the run has ended, and its agents and services with it"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{self.broker_path}: cannot be read ({error.strerror}); only who started the run can"
            ) from error

    @property
    def alive_path(self) -> Path:
        """Path of a file that the services touch while the run goes on: other nodes see by it that they
        live.
        """
        return self.path / "alive"

    @property
    def interrupted_path(self) -> Path:
        """Path of a file that is made when the run is asked to end while its program runs: by a scheduler,
        which kills it soon.
        """
        return self.path / "interrupted"

    def statistics_paths(self, parts: int) -> list[Path]:
        """Return paths of copies of the saved state of each part of the parameter server, for services that
        continue elsewhere; when the run is over, for deltas that agents could not deliver.
        """
        return [self.path / f"statistics{f'-{part}' if part else ''}" for part in range(parts)]

    @property
    def programs_path(self) -> Path:
        """Path of the numbers of programs in the run, as JSON: the broker's, which may die with its
        services.
        """
        return self.settings / "programs.json"

    def read_programs(self) -> dict[str, int]:
        """Return the numbers of programs; none if nobody noted them."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(contents(self.programs_path), type=dict[str, int])
        return {}

    @property
    def metrics_token_path(self) -> Path:
        """Path of the token that Prometheus has to bring; it is the owner's alone."""
        return self.path / "metrics-token"

    @property
    def page_token_path(self) -> Path:
        """Path of the token that browsers have to bring to the run's dashboard, whoever starts it; the
        owner's alone, too.
        """
        return self.path / PAGE_TOKEN

    @property
    def dashboard_path(self) -> Path:
        """Path of the dashboard's address, with its token, while the run goes on; it is the owner's alone,
        too.
        """
        return self.path / "dashboard"

    @property
    def settings(self) -> Path:
        """Folder with files made for the application: ADIOS2 settings, TAU's select file, and the command
        that starts it on a node.
        """
        return self.path / "settings"

    def scratch_note(self, part: str) -> Path:
        """Return the path of the note that says where a part of the run keeps, on its node's own storage,
        what is not stored yet, as JSON.
        """
        return self.settings / f"scratch-{part}.json"

    def rescued(self, node: str) -> Path:
        """Return the folder for findings that an agent could not deliver from its node, as the node may not
        be held much longer.
        """
        return self.path / RESCUED / node

    @property
    def streams_path(self) -> Path:
        """Path of the file that says in which folder each node of a run on many nodes has one, of its name,
        for its streams.
        """
        return self.settings / "streams"

    @property
    def host_options(self) -> Path:
        """Path of the start options of the services of a run on many nodes, without secrets, as JSON."""
        return self.settings / "serve.json"

    @property
    def node_command(self) -> Path:
        """Path of a command that starts a program with the run's settings.

        Its streams are put where the agent of the node looks for them.
        """
        return self.settings / "node"

    @property
    def store_url_path(self) -> Path:
        """Path of the URL of a store elsewhere with its password; it is the owner's alone."""
        return self.path / "store"

    def used_store_url(self, info: RunInfo) -> str:
        """Return the URL of the store that holds the run, with its password.

        The file in the folder comes first: the folder may have been moved since its URL was noted. While the
        run goes on, and its store is on local storage of this node, that in the folder is an older copy.

        Raises
        ------
        ConfigError
            The folder names a database that the user has not named.
        """
        noted = Path(info.store_url.removeprefix("sqlite:///"))
        if noted.parent.name.startswith(f"chimbuko-{info.id}-") and noted.is_file():
            return info.store_url
        if self.store_path.exists():
            return self.store_url
        url = info.store_url
        with suppress(OSError, UnicodeDecodeError):
            url = contents(self.store_url_path).decode()
        if is_named(url):
            return url
        if named := os.environ.get(STORE_VARIABLE):
            return named
        if url.startswith("sqlite:"):
            return self.store_url
        raise ConfigError(
            f"{self.path}: names a database that you have not named yet, {info.store_url}; if you trust it, "
            f"set {STORE_VARIABLE} to its URL"
        )

    def write_store_url(self, url: str) -> None:
        """Write the URL of a store elsewhere, which the user has named."""
        write_secret(self.store_url_path, url)
        note_named(url)

    def read_info(self) -> RunInfo:
        """Return the description of the run.

        Raises
        ------
        ConfigError
            This is not the folder of a run.
        """
        try:
            return msgspec.json.decode(contents(self.info_path, MOST_INFO_BYTES), type=RunInfo)
        except FileNotFoundError:
            raise ConfigError(f"{self.path}: not the folder of a run (it has no run.json)") from None
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{self.info_path}: not readable ({error})") from error

    def write_info(self, info: RunInfo) -> None:
        """Write the description atomically: a reader sees the old or the new text, never half of it, also
        after a loss of power.

        Raises
        ------
        ConfigError
            The folder cannot be written.
        """
        try:
            write_atomically(self.info_path, msgspec.json.format(msgspec.json.encode(info)), is_durable=True)
        except OSError as error:
            raise ConfigError(f"{self.info_path}: cannot be written ({error.strerror})") from error


def new_run(
    folder: Path,
    command: list[str],
    config: AnalysisConfig,
    store_url: str | None,
    environment: Mapping[str, str] | None = None,
) -> RunDirectory:
    """Make the folder of a new run, with its ``run.json``; the store's URL comes without a password.

    Raises
    ------
    ConfigError
        The folder holds a run already, or cannot be written.
    """
    run = RunDirectory(folder.absolute())
    if run.info_path.exists():
        raise ConfigError(f"{folder}: holds a run already; choose another with --output")
    try:
        for path in (run.path, run.logs, run.trace, run.settings):
            # For the owner only, also one that was there: the store's URL may hold a password.
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        run.write_info(
            RunInfo(
                id=uuid.uuid4().hex[:12],
                name=folder.name,
                command=without_secrets(command),
                state="running",
                started_us=time.time_ns() // 1000,
                ended_us=0,
                exit_code=None,
                host=platform.node(),
                store_url=store_url or run.store_url,
                config=config,
                version=__version__,
                environment=dict(environment or {}),
            )
        )
    except OSError as error:
        raise ConfigError(
            f"{folder}: run folder cannot be written ({error.strerror}); choose another with --output"
        ) from error
    return run


def claim_name(run_id: str) -> str:
    """Return the name that the services of a run hold on their node (``process.nameholding.hold``) until they
    have ended.
    """
    return f"run {run_id}"


def check_name(name: str) -> str:
    """Return a name if it can be given to a run, and to its folder.

    Raises
    ------
    ConfigError
        The name cannot be used.
    """
    is_plain = re.fullmatch(r"[^/.\-\s][^/]*", name) is not None and visible(name) == name
    if not is_plain or len(name.encode()) > LONGEST_NAME_BYTES:
        shown = name if len(name) <= LONGEST_NAME_BYTES else name[:LONGEST_NAME_BYTES] + "…"
        raise ConfigError(
            f"{shown!r}: cannot be the name of a run; give one without '/' and control characters, that "
            f"begins with none of '.', '-', ' ' and takes at most {LONGEST_NAME_BYTES} bytes"
        )
    return name


AGENT_MARK = "agent"
"""Name of a file in the folder of a node's streams: their agent has come, and how the streams are to come."""
COMING_MARK = "agent-coming"
"""Name of a file in the same folder, with another content each second, of an agent that compiles kernels
before.
"""
