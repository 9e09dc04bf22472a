"""Attribute of PerfFlowAspect: ``annotate("@critical_path(pointcut='around', scope='net', flow='out')")``."""

from __future__ import annotations

import re

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import FLOWS, POINTCUTS, Advice

SIGN = "@critical_path"
_WHOLE = re.compile(rf"\s*{SIGN}\s*\((.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"""\s*(\w+)\s*=\s*(?:'([^']*)'|"([^"]*)"|)\s*""")
_NONE = "NA"
"""Word of PerfFlowAspect for no scope and no flow."""


def parse_attribute(text: str) -> Advice:
    """Return the advice of an attribute; what the attribute does not name has PerfFlowAspect's default.

    Raises
    ------
    ConfigError
        The text is not such an attribute, or a value is unknown.
    """
    whole = _WHOLE.fullmatch(text)
    values = {"pointcut": POINTCUTS[0], "scope": "", "flow": ""}
    for part in filter(str.strip, whole[1].split(",")) if whole else [text]:
        argument = _ARGUMENT.fullmatch(part)
        if argument is None or argument[1] not in values:
            raise ConfigError(f"{text!r} is not understood: it takes pointcut='…', scope='…' and flow='…'")
        values[argument[1]] = argument[2] or argument[3] or ""
    values = {key: "" if value == _NONE else value for key, value in values.items()}
    if values["pointcut"] not in POINTCUTS:
        raise ConfigError(f"{text!r}: the pointcut is one of {', '.join(POINTCUTS)}")
    if values["flow"] not in FLOWS:
        raise ConfigError(f"{text!r}: the flow is one of {', '.join(filter(None, FLOWS))}")
    return Advice(**values)
