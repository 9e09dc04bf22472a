"""Access control: every request needs the run's token, and a host name of the server.

It stands in front of everything, event sockets too, as WSGI middleware.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from chimbuko.viz.api.answers import error_body
from chimbuko.viz.http.listening import EVERYWHERE

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

NO_TOKEN = "This dashboard needs its token: open the address that 'chimbuko run' or 'chimbuko view' printed."


class AccessControl:
    """Middleware that admits requests with the token: as ``?token=``, cookie, or ``Authorization:
    Bearer``.

    Parameters
    ----------
    hosts
        Names by which the server may be called, beside those of the loopback. A page elsewhere
        whose name is made to resolve to us (DNS rebinding) still says its own name. Among them ``0.0.0.0``
        stands for all addresses, which no name can be made to resolve from.
    """

    def __init__(self, inner: WSGIApplication, token: str, hosts: frozenset[str] = frozenset()) -> None:
        self._inner = inner
        self._token = token.encode()
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in hosts}
        # Browsers share cookies among all ports of a host: each dashboard has its own.
        self.cookie = "chimbuko-" + self._derived(b"name")[:12]
        # The cookie does not hold the token itself, which may have characters that a cookie cannot hold.
        self._pass = self._derived(b"pass")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Admit the request, or refuse it."""
        host = host_name(environ.get("HTTP_HOST", ""))
        if host not in self._hosts and not (EVERYWHERE in self._hosts and _is_address(host)):
            text = f"Host {host!r} is not a name of this dashboard: use localhost, or start it with "
            text += "--public-url (chimbuko run, serve: --dashboard-url)."
            return _refuse(environ, start_response, "403 Forbidden", text)
        query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        given = next((value for name, value in query if name == "token"), None)
        if given is not None and self._is_token(given):
            return self._let_in(environ, start_response, [item for item in query if item[0] != "token"])
        if self._is_token(_bearer(environ)) or hmac.compare_digest(self._cookie_value(environ), self._pass):
            return self._inner(environ, start_response)
        return _refuse(environ, start_response, "401 Unauthorized", NO_TOKEN)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    def _derived(self, purpose: bytes) -> str:
        return hmac.new(self._token, purpose, hashlib.sha256).hexdigest()

    def _cookie_value(self, environ: WSGIEnvironment) -> str:
        try:
            morsel = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(self.cookie)
        except CookieError:
            return ""
        return morsel.value if morsel and morsel.value.isascii() else ""

    def _let_in(
        self, environ: WSGIEnvironment, start_response: StartResponse, query: list[tuple[str, str]]
    ) -> Iterable[bytes]:
        # The redirect is relative, because a proxy may have put a path in front.
        page = "./" + quote(environ.get("PATH_INFO", "/").encode("latin-1").rsplit(b"/", 1)[-1])
        location = page + ("?" + urlencode(query) if query else "")
        cookie = f"{self.cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
        if environ.get("wsgi.url_scheme") == "https":
            cookie += "; Secure"
        headers = [("Location", location), ("Set-Cookie", cookie), ("Content-Length", "0"), *_PRIVATE]
        start_response("303 See Other", headers)
        return []


_HOST = re.compile(r"(?:\[(?P<address>[^\]]+)\]|(?P<name>[^:\[\]]+))(?::\d*)?")
_PRIVATE = [("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer")]


def host_name(host: str) -> str:
    """Return a ``Host`` header without its port, IPv6 addresses without brackets; empty for what is none."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower() if found else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _bearer(environ: WSGIEnvironment) -> str:
    kind, _, value = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def asks_for_page(environ: WSGIEnvironment) -> bool:
    """Whether a browser navigates to a page, rather than a program or a script asking for data."""
    is_visit = environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
    return is_visit or "text/html" in environ.get("HTTP_ACCEPT", "")


def _refuse(
    environ: WSGIEnvironment, start_response: StartResponse, status: str, text: str
) -> Iterable[bytes]:
    is_page = asks_for_page(environ)
    code = int(status.split()[0])
    body = (text + "\n").encode() if is_page else error_body(code, text)
    kind = "text/plain; charset=utf-8" if is_page else "application/json"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *_PRIVATE]
    if code == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    # A link on another page (a web terminal) comes without the cookie, which is strict: our own
    # page, loading itself again, brings it.
    if code == 401 and environ.get("HTTP_SEC_FETCH_SITE") == "cross-site" and is_page:
        headers.append(("Refresh", "0"))
    start_response(status, headers)
    return [body]
