"""Description of a workflow, read from its file in TOML or YAML."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.core.units import parse_duration_us
from chimbuko.observe.workflow.task import FreeCores, Node, Recommendation, Resources, Task

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class Analysis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the analysis of traces that runs beside the tasks."""

    options: tuple[str, ...] = ()
    """Options of ``chimbuko serve``."""
    advised: str = ""
    """Earlier run, or folder of a workflow, whose advice is followed; empty for none."""


class Namespaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the service of namespaces."""

    place: str = ""
    """Address of a service that runs already; empty for one that is started with the workflow."""
    options: tuple[str, ...] = ()
    """Options of ``chimbuko namespaces serve``."""


class Monitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the monitor of each node."""

    period: str = "1s"


class _Recommended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    namespace: str = "application"
    default: str | int | float | None = None


class _Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    command: str | tuple[str, ...]
    after: tuple[str, ...] = ()
    ranks: int = 1
    cores: int = 1
    nodes: int = 1
    retries: int = 0
    environment: dict[str, str] = {}
    folder: str = "."
    recommended: dict[str, _Recommended] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: tuple[_Task, ...]
    analysis: Analysis | None = None
    namespaces: Namespaces = Namespaces()
    monitor: Monitor | None = None
    mpirun: str = "mpirun"
    placement: Literal["shared", "exclusive"] = "shared"


class Workflow(msgspec.Struct, frozen=True):
    """Workflow as its file describes it."""

    tasks: tuple[Task, ...]
    analysis: Analysis | None
    """Analysis of traces; None for none."""
    namespaces: Namespaces
    monitor: Monitor | None
    """Monitor of nodes; None for none."""
    mpirun: tuple[str, ...]
    """Words that start tasks of several ranks, where no scheduler does."""
    is_exclusive: bool
    """Whether services have a node on which no task runs."""

    def advised_by(self, folder: str) -> Workflow:
        """Return the workflow with its analysis following the advice of an earlier workflow or run.

        Raises
        ------
        ConfigError
            It has no analysis.
        """
        if self.analysis is None:
            raise ConfigError("--advised: the workflow has no analysis; add a table [analysis] to its file")
        return msgspec.structs.replace(self, analysis=msgspec.structs.replace(self.analysis, advised=folder))


def workflow_of(content: Mapping[str, Any]) -> Workflow:
    """Return the workflow that the tables of a file describe.

    Raises
    ------
    ConfigError
        Something is missing, unknown, or contradicts itself; without the name of the file.
    """
    try:
        file = msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from None
    tasks = tuple(_task(one) for one in file.task)
    if not tasks:
        raise ConfigError("no task: add one as a table [[task]] with a name and a command")
    _check_names(tasks)
    _check_circles(tasks)
    if file.monitor is not None:
        parse_duration_us(file.monitor.period)
    return Workflow(
        tasks,
        file.analysis,
        file.namespaces,
        file.monitor,
        _words("mpirun", file.mpirun),
        file.placement == "exclusive",
    )


def check_room(tasks: Iterable[Task], nodes: Sequence[Node]) -> None:
    """Raise ConfigError if there is a task for which the nodes are too few or too small."""
    cores = FreeCores(nodes)
    for task in tasks:
        if not cores.could_fit(task.resources):
            wanted = task.resources
            sizes = ", ".join(f"{node.name} with {len(node.cores)}" for node in nodes)
            raise ConfigError(
                f"task {task.name}: needs {wanted.cores_per_node} cores on each of {wanted.nodes} nodes, and "
                f"there are {sizes}; ask for fewer ranks, cores or nodes"
            )


def _task(one: _Task) -> Task:
    if not _NAME.fullmatch(one.name):
        raise ConfigError(f"task {one.name!r}: no name; use up to 64 letters, digits, and _ . -")
    where = f"task {one.name}"
    for name, least in (("ranks", 1), ("cores", 1), ("nodes", 1), ("retries", 0)):
        if getattr(one, name) < least:
            raise ConfigError(f"{where}: {name} = {getattr(one, name)}; give {least} or more")
    if one.ranks < one.nodes:
        raise ConfigError(f"{where}: {one.ranks} ranks cannot be on {one.nodes} nodes; ask for fewer nodes")
    words = _words(where, one.command)
    recommended = {
        name: Recommendation(given.namespace, given.key, given.default)
        for name, given in one.recommended.items()
    }
    resources = Resources(one.ranks, one.cores, one.nodes)
    return Task(one.name, words, one.after, resources, one.retries, one.environment, one.folder, recommended)


def _words(where: str, command: str | tuple[str, ...]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command)) if isinstance(command, str) else command
    except ValueError as error:
        raise ConfigError(f"{where}: {command!r} is no command ({error})") from None
    if not words or not words[0]:
        raise ConfigError(f"{where}: the command is empty")
    return words


def _check_names(tasks: Collection[Task]) -> None:
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"task {name}: there are {names.count(name)} of this name; give each its own")
    for task in tasks:
        for other in task.after:
            if other not in names:
                raise ConfigError(f"task {task.name}: is after {other!r}, and there is no such task")


def _check_circles(tasks: Collection[Task]) -> None:
    waiting = {task.name: set(task.after) for task in tasks}
    while free := [name for name, others in waiting.items() if not others & waiting.keys()]:
        for name in free:
            del waiting[name]
    if waiting:
        raise ConfigError(f"tasks {', '.join(waiting)}: wait for each other in a circle")


YAML_ENDINGS = (".yaml", ".yml")


def read_workflow(path: Path) -> Workflow:
    """Read the workflow in a file; by its ending it is YAML or else TOML.

    Raises
    ------
    ConfigError
        It cannot be read, or is none.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no text ({error.reason})") from error
    content = _yaml(path, text) if path.suffix in YAML_ENDINGS else _toml(path, text)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: has no tables; a workflow has at least one task")
    try:
        return workflow_of(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML ({error})") from error


def _yaml(path: Path, text: str) -> Any:
    try:
        # PyYAML is no dependency of Chimbuko: users who write YAML have it.
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError(f"{path}: YAML is read by PyYAML; install 'pyyaml', or write TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())})") from error
