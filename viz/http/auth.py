"""Access control: every request needs the run's token, and a host name of the server.

It stands in front of everything, event sockets too, as WSGI middleware.

A browser gets a cookie for the token. It is of no use with the next server, nor after a day: a stranger who
listens on the port of a server that has ended gets it from each open page. A page that is refused shows that
it was let in before, by a key that it keeps in memory and never sends: it answers a challenge with it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from functools import cache
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from chimbuko.viz.api.endpoint import error_body
from chimbuko.viz.http.listening import EVERYWHERE, KEY_VARIABLE

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

COOKIE_S = 86_400.0
"""Time in seconds for which a cookie is good; one that is used is renewed after half of it."""
ANSWER_S = 30.0
"""Time in seconds for which a challenge can be answered."""
PAGE_KEY = "page-key"
"""Last part of the address at which a page that was let in finds its key."""
CHALLENGE = "X-Chimbuko-Challenge"
ANSWER = "chimbuko"
"""Scheme of the header ``Authorization`` with the answer to a challenge."""

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
    key
        Key of the cookies; None for that of this process, which is a new one at each start.
    """

    def __init__(
        self,
        inner: WSGIApplication,
        token: str,
        hosts: frozenset[str] = frozenset(),
        key: bytes | None = None,
    ) -> None:
        self._inner = inner
        self._token = token.encode()
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in hosts}
        # Browsers share cookies among all ports of a host: each dashboard has its own.
        self.cookie = "chimbuko-" + _derived(self._token, "name")[:12]
        self._key = _key_of_cookies() if key is None else key
        # It outlives the server, and only who has been let in has it.
        self._page_key = _derived(self._token, "page")

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
        left_s = self._left_s("pass", self._cookie_value(environ))
        if self._is_token(_credentials(environ, "bearer")) or left_s > 0.5 * COOKIE_S:
            return self._inside(environ, start_response)
        if left_s > 0.0 or self._is_answer(environ):
            return self._inside(environ, self._renewing(environ, start_response))
        challenge = [(CHALLENGE, self._signed("ask", ANSWER_S))] if _is_own_port(environ) else []
        return _refuse(environ, start_response, "401 Unauthorized", NO_TOKEN, challenge)

    def _inside(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").rpartition("/")[2] != PAGE_KEY:
            return self._inner(environ, start_response)
        body = msgspec.json.encode({"ok": True, "key": self._page_key})
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *_PRIVATE]
        start_response("200 OK", headers)
        return [body]

    def _renewing(self, environ: WSGIEnvironment, start_response: StartResponse) -> StartResponse:
        """Return what starts the same response, with a new cookie."""

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, self._new_cookie(environ)], *error)

        return start

    def _signed(self, purpose: str, lasting_s: float) -> str:
        """Return a text that only this server can make, good for so long."""
        end = f"{time.time() + lasting_s:.0f}.{secrets.token_hex(8)}"
        return f"{end}.{_derived(self._key, purpose + end)}"

    def _left_s(self, purpose: str, given: str) -> float:
        """Return for how long a text is still good; nothing if it is none of this server."""
        end, _, seal = given.rpartition(".")
        if not hmac.compare_digest(seal, _derived(self._key, purpose + end)):
            return 0.0
        return float(end.partition(".")[0]) - time.time()

    def _is_answer(self, environ: WSGIEnvironment) -> bool:
        """Return whether a page answers a challenge of this server, and has come to it itself.

        The host that the page has in its address is part of the answer: a stranger on another port, who
        passes challenge and answer on, would have to give our port for his.
        """
        challenge, _, answer = _credentials(environ, ANSWER).partition(" ")
        if not (challenge + answer).isascii() or not _is_own_port(environ):
            return False
        wanted = _derived(self._page_key.encode(), f"{challenge} {environ.get('HTTP_HOST', '').lower()}")
        return self._left_s("ask", challenge) > 0.0 and hmac.compare_digest(answer, wanted)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

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
        headers = [("Location", location), self._new_cookie(environ), ("Content-Length", "0"), *_PRIVATE]
        start_response("303 See Other", headers)
        return []

    def _new_cookie(self, environ: WSGIEnvironment) -> tuple[str, str]:
        cookie = f"{self.cookie}={self._signed('pass', COOKIE_S)}; Path=/; HttpOnly; SameSite=Strict"
        if environ.get("wsgi.url_scheme") == "https":
            cookie += "; Secure"
        return "Set-Cookie", cookie


@cache
def _key_of_cookies() -> bytes:
    return bytes.fromhex(os.environ.get(KEY_VARIABLE, "")) or secrets.token_bytes(32)


def _derived(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _is_own_port(environ: WSGIEnvironment) -> bool:
    """Return whether the port in a browser's address is ours, or a usual one, where no stranger listens."""
    port = environ.get("HTTP_HOST", "").rpartition("]")[2].partition(":")[2]
    return port in ("", environ.get("SERVER_PORT", ""))


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


def _credentials(environ: WSGIEnvironment, scheme: str) -> str:
    kind, _, value = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return value.strip() if kind.lower() == scheme else ""


def asks_for_page(environ: WSGIEnvironment) -> bool:
    """Whether a browser navigates to a page, rather than a program or a script asking for data."""
    is_visit = environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
    return is_visit or "text/html" in environ.get("HTTP_ACCEPT", "")


def _refuse(
    environ: WSGIEnvironment,
    start_response: StartResponse,
    status: str,
    text: str,
    more: Sequence[tuple[str, str]] = (),
) -> Iterable[bytes]:
    is_page = asks_for_page(environ)
    code = int(status.split()[0])
    body = (text + "\n").encode() if is_page else error_body(code, text)
    kind = "text/plain; charset=utf-8" if is_page else "application/json"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *_PRIVATE, *more]
    if code == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    # A link on another page (a web terminal) comes without the cookie, which is strict: our own
    # page, loading itself again, brings it.
    if code == 401 and environ.get("HTTP_SEC_FETCH_SITE") == "cross-site" and is_page:
        headers.append(("Refresh", "0"))
    start_response(status, headers)
    return [body]
