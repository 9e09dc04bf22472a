"""Sinks of alerts: what takes each of them, as JSON, and how the user names one.

Addresses and commands may hold secrets: no message of a sink repeats them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from chimbuko import __version__
from chimbuko.core import plugins
from chimbuko.core.errors import ConfigError

TIMEOUT_S = 10.0
"""Maximum time of one try to hand over an alert."""


class SinkError(Exception):
    """A sink did not take an alert."""


class Sink(msgspec.Struct, frozen=True):
    """Receiver of alerts."""

    name: str
    """Name of the receiver in messages to the user."""
    take: Callable[[bytes], None]
    """Function that takes one alert, as JSON, or raises ``SinkError``."""


class SinkKind(msgspec.Struct, frozen=True):
    """One kind of sink: how the user names one, and how it is opened."""

    option: str
    """Option of the command line, as ``--alert-url``."""
    variable: str
    """Environment variable that names one, too."""
    metavar: str
    help: str
    open: Callable[[str], Sink]
    """Returns the sink with this name; raises ``ConfigError`` where it can never work."""

    @property
    def parameter(self) -> str:
        """Name of the option as a parameter in Python."""
        return self.option.lstrip("-").replace("-", "_")


WEBHOOK_VARIABLE = "CHIMBUKO_ALERT_URL"


def _open_webhook(url: str) -> Sink:
    """Return the webhook at an address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError("the address for alerts is not usable; give one like https://HOST/PATH")
    return Sink(f"webhook at {parts.hostname}", lambda body: _post(url, body))


def _post(url: str, body: bytes) -> None:
    # Loaded here: most runs alert nobody, and would pay 5 ms for a client of the web.
    import urllib.error
    import urllib.request

    # Without the handler of redirections: whoever answers would choose what else is asked from this node.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    headers = {"Content-Type": "application/json", "User-Agent": f"chimbuko/{__version__}"}
    try:
        request = urllib.request.Request(url, body, headers)
        with opener.open(request, timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        elsewhere = "; give the address that it leads to" if "Location" in error.headers else ""
        raise SinkError(f"it answers {error.code}{elsewhere}") from None
    except urllib.error.URLError as error:
        raise SinkError(getattr(error.reason, "strerror", None) or type(error.reason).__name__) from None
    except Exception as error:
        # What it says may hold the address.
        raise SinkError(type(error).__name__) from None


WEBHOOK = SinkKind(
    option="--alert-url",
    variable=WEBHOOK_VARIABLE,
    metavar="URL",
    help=f"Webhook that alerts are posted to. Better set in {WEBHOOK_VARIABLE}, which other users cannot "
    "read.",
    open=_open_webhook,
)


COMMAND_VARIABLE = "CHIMBUKO_ALERT_COMMAND"


def _open_command(command: str) -> Sink:
    """Return the sink that runs a command for each alert."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"the command for alerts is not usable ({error})") from None
    return Sink("command for alerts", lambda body: _run(words, body))


def _run(words: list[str], body: bytes) -> None:
    # Passwords of broker and store are not its business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHIMBUKO_")}
    try:
        done = subprocess.run(
            words,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SinkError(f"it took more than {TIMEOUT_S:.0f} s and was ended") from None
    except OSError as error:
        raise SinkError(error.strerror or type(error).__name__) from None
    if done.returncode:
        raise SinkError(f"exit code {done.returncode}")


COMMAND = SinkKind(
    option="--alert-command",
    variable=COMMAND_VARIABLE,
    metavar="COMMAND",
    help=f"Command that reads alerts on its standard input. Also set by {COMMAND_VARIABLE}.",
    open=_open_command,
)


PLUGIN_VARIABLE = "CHIMBUKO_ALERT_TO"


def _open_plugin(named: str) -> Sink:
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
    variable=PLUGIN_VARIABLE,
    metavar="NAME:WHERE",
    help=f"Plugin that takes alerts, and where it brings them. Better set in {PLUGIN_VARIABLE}, which other "
    "users cannot read.",
    open=_open_plugin,
)


SINKS: tuple[SinkKind, ...] = (WEBHOOK, COMMAND, PLUGIN)


def sinks_named(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment names sinks by, by the variables of ``SINKS``; empty if it names none."""
    return {kind.variable: environment.get(kind.variable, "") for kind in SINKS}


def sinks_of(environment: Mapping[str, str]) -> list[Sink]:
    """Open the sinks that an environment names.

    Raises
    ------
    ConfigError
        One of them can never work.
    """
    return [kind.open(named) for kind in SINKS if (named := environment.get(kind.variable))]
