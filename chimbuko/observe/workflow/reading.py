"""Reads the file of a workflow, TOML or YAML."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

from chimbuko.core.errors import ConfigError
from chimbuko.observe.workflow.description import Workflow, workflow_of

YAML_ENDINGS = (".yaml", ".yml")


def read_workflow(path: Path) -> Workflow:
    """The workflow in a file; by its ending it is YAML or else TOML.

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
        # Not among what Chimbuko needs: who writes YAML has it.
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError(f"{path}: YAML is read by PyYAML; install 'pyyaml', or write TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())})") from error
