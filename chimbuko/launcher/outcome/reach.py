"""Ways to look into a run from a node that does not have its store."""

from __future__ import annotations

import platform
import time
from contextlib import suppress
from pathlib import Path

import redis

from chimbuko.core.errors import ChimbukoError, ConfigError, StoreError
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.recovery import recovery_lines
from chimbuko.provenance.manage.lifecycle import RUNNING, state_of
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo
from chimbuko.runtime.runs.finding import find_run

ANSWER_S = 15.0
"""Longest time in seconds to wait for a copy of the store; a larger store takes longer."""
LOOK_S = 0.1


def reachable_run(path: Path | None, behind: str | None = None) -> RunDirectory:
    """Return the run that ``find_run`` finds, of which ``reach`` has seen that it can be looked into.

    Parameters
    ----------
    behind
        Word behind the run in a command: it may be the run, if what stands first is none.

    Raises
    ------
    ChimbukoError
        Those of both.
    """
    try:
        run = find_run(path)
    except ConfigError:
        if path is not None and behind is not None and _is_run(behind):
            raise ConfigError(f"{behind}: RUN stands first, before '{path}'") from None
        raise
    reach(run)
    return run


def _is_run(word: str) -> bool:
    with suppress(ConfigError):
        find_run(Path(word))
        return True
    return False


def reach(run: RunDirectory) -> None:
    """Say on standard error what is to be known before a run is looked at, and see that there is something.

    If a live run has its store on another node, its services are asked for a new copy.

    Raises
    ------
    StoreError
        Its store is on another node, and there is no copy of it.
    """
    info = run.read_info()
    for line in recovery_lines(run, info):
        say(line)
    if not _is_elsewhere(run, info):
        return
    is_new = state_of(run, info) == RUNNING and _ask_for_copy(run, info)
    if not run.store_path.exists():
        raise StoreError(
            f"{info.name}: its store is on {info.host}, and no copy of it is in {run.path} yet; look there"
        )
    at = time.strftime("%H:%M:%S on %Y-%m-%d", time.localtime(run.store_path.stat().st_mtime))
    say(f"{info.name}: its store is on {info.host}; this is {'a new' if is_new else 'the'} copy, of {at}")


def _is_elsewhere(run: RunDirectory, info: RunInfo) -> bool:
    place = Path(info.store_url.removeprefix("sqlite:///"))
    is_scratch = place.parent.name.startswith(f"chimbuko-{info.id}-")
    return is_scratch and info.host != platform.node() and not place.is_file()


def _ask_for_copy(run: RunDirectory, info: RunInfo) -> bool:
    """Whether there is one that was made after this was called."""
    with suppress(ChimbukoError, redis.RedisError):
        broker = RunBroker.connect(run.read_broker_url(), info.id)
        with broker.client as client:
            asked = f"{platform.node()} {time.time_ns()}".encode()
            client.set(broker.keys.copy_wanted, asked)
            broker.wake()
            deadline_s = time.monotonic() + ANSWER_S
            while time.monotonic() < deadline_s:
                if client.get(broker.keys.copy_made) == asked:
                    return True
                if client.get(broker.keys.copy_wanted) != asked:
                    # Somebody else asked meanwhile; the answer is as good for us.
                    asked = client.get(broker.keys.copy_wanted) or asked
                time.sleep(LOOK_S)
    return False
