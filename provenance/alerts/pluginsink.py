"""Sink of alerts that a plugin opens."""

from __future__ import annotations

from collections.abc import Callable

from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.alerts.sink import Sink, SinkKind

VARIABLE = "CHIMBUKO_ALERT_TO"


def opened(named: str) -> Sink:
    """Return the sink that a plugin opens, by ``NAME:WHERE``; errors name the plugin alone, as what comes
    behind it may be a secret.
    """
    name, _, where = named.partition(":")
    known = plugins.declared("sinks")
    if name not in known:
        there_are = f"there are {', '.join(known)}" if known else "no package declares one"
        raise ConfigError(f"--alert-to: no plugin has this name; {there_are}; see 'chimbuko plugins'")
    open_it: Callable[[str], Sink] = plugins.load("sinks", name)
    try:
        sink = open_it(where)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"the plugin {name} cannot open its sink ({type(error).__name__})") from None
    if not isinstance(sink, Sink):
        raise ConfigError(
            f"the plugin {name} opens something of type {type(sink).__name__}, where a Sink belongs"
        )
    return sink


PLUGIN = SinkKind(
    option="--alert-to",
    variable=VARIABLE,
    metavar="NAME:WHERE",
    help=f"Plugin that takes alerts, and where it brings them. Better set in {VARIABLE}, which other users "
    "cannot read.",
    open=opened,
)
