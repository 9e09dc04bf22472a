"""All texts that a tree can be written as, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chimbuko.observe.namespaces.tree.conduit import conduit_base64_json, conduit_json
from chimbuko.observe.namespaces.tree.plain import plain_json, yaml
from chimbuko.observe.namespaces.tree.tree import Tree

FORMATS: Mapping[str, Callable[[Tree], str]] = {
    "yaml": yaml,
    "json": plain_json,
    "conduit_json": conduit_json,
    "conduit_base64_json": conduit_base64_json,
}
"""Named as Conduit's protocols; the first is the default, as SOMA's own."""
