"""OpenAPI 3.1 document of the API, made from the declarations of its endpoints."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from chimbuko import __version__
from chimbuko.viz.api.endpoint import Endpoint, ErrorBody

ROOT = "/api/v1"
LINES = "application/x-ndjson"

_ERRORS = {
    "400": "An argument is unknown, missing, or cannot be used.",
    "401": "The token is missing or wrong.",
    "403": "Another site may not ask this.",
    "404": "There is nothing at this address.",
    "default": "Any other error.",
}

Object = dict[str, Any]


def document(endpoints: Sequence[Endpoint]) -> Object:
    """Return the OpenAPI document of these endpoints."""
    answers, components = _schemas([endpoint.answer for endpoint in endpoints])
    (error,), error_component = _schemas([ErrorBody])
    paths = {
        endpoint.path: {"post" if endpoint.is_write else "get": _operation(endpoint, answer, error)}
        for endpoint, answer in zip(endpoints, answers, strict=True)
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Chimbuko",
            "version": __version__,
            "summary": "Findings of one run, and the health of its analysis.",
            "description": "Times are µs since the Unix epoch on the trace's clock, durations are µs.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": ROOT}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components | error_component,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The `token` in the dashboard's address.",
                }
            },
        },
    }


def _schemas(kinds: Sequence[Any]) -> tuple[tuple[Object, ...], Object]:
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    # Before msgspec 0.23 docstrings keep their indentation.
    for component in components.values():
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
    return schemas, components


def _operation(endpoint: Endpoint, answer: Object, error: Object) -> Object:
    if endpoint.is_lines:
        kind, description = (
            LINES,
            "Lines, one object each; a last one with `ok` false if it broke off.",
        )
        answer = {"type": "array", "items": {"anyOf": [answer, error]}}
    else:
        kind, description = "application/json", "The answer."
    responses = {"200": {"description": description, "content": {kind: {"schema": answer}}}}
    for status, why in _ERRORS.items():
        responses[status] = {"description": why, "content": {"application/json": {"schema": error}}}
    asked = {"requestBody": _body(endpoint)} if endpoint.is_write else {}
    return {
        "operationId": endpoint.name,
        "summary": endpoint.description.partition("\n")[0],
        "description": endpoint.description,
        "parameters": [] if endpoint.is_write else _parameters(endpoint),
        **asked,
        "responses": responses,
    }


def _body(endpoint: Endpoint) -> Object:
    (reference,), components = _schemas([endpoint.parameters])
    schema = components[reference["$ref"].rpartition("/")[2]]
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _parameters(endpoint: Endpoint) -> list[Object]:
    (reference,), components = _schemas([endpoint.parameters])
    fields = components[reference["$ref"].rpartition("/")[2]]
    in_path = re.findall("{(.*?)}", endpoint.path)
    return [
        _parameter(name, schema, name in in_path, name in fields["required"])
        for name, schema in fields["properties"].items()
    ]


def _parameter(name: str, schema: Object, is_in_path: bool, is_required: bool) -> Object:
    # An argument can be left out, and is never null.
    options = [option for option in schema.pop("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        schema |= options[0]
    if schema.get("default", ...) is None:
        del schema["default"]
    parameter = {
        "name": name,
        "in": "path" if is_in_path else "query",
        "required": is_in_path or is_required,
        "description": schema.pop("description", ""),
        "schema": schema,
    }
    return parameter
