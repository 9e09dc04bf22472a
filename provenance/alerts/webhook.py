"""Webhook that alerts are posted to."""

from __future__ import annotations

from urllib.parse import urlsplit

from chimbuko import __version__
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.alerts.sink import TIMEOUT_S, Sink, SinkError, SinkKind

VARIABLE = "CHIMBUKO_ALERT_URL"


def opened(url: str) -> Sink:
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
    variable=VARIABLE,
    metavar="URL",
    help=f"Webhook that alerts are posted to. Better set in {VARIABLE}, which other users cannot read.",
    open=opened,
)
