"""Who may come in."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from werkzeug.test import Client, TestResponse

from chimbuko.viz.http.auth import ANSWER_S, COOKIE_S, AccessControl, host_name

TOKEN = "s3cret/+&=x"


def inner(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Says what it was asked."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}".encode()]


@pytest.fixture
def door() -> AccessControl:
    """A door before ``inner``."""
    return AccessControl(inner, TOKEN, frozenset({"Login7.example"}))


def ask(door: AccessControl, path: str = "/x", **headers: str) -> TestResponse:
    """A GET with headers; underscores in their names stand for hyphens."""
    given = {name.replace("_", "-"): value for name, value in ({"Host": "localhost:1"} | headers).items()}
    return Client(door, use_cookies=False).get(path, headers=given)


def test_without_token_it_says_what_to_do_to_people_and_programs(door: AccessControl) -> None:
    answer = ask(door)
    assert answer.status_code == 401
    body = msgspec.json.decode(answer.data)
    assert body["ok"] is False and body["status"] == 401
    assert "chimbuko view" in body["error"]
    page = ask(door, Accept="text/html")
    assert page.status_code == 401 and page.mimetype == "text/plain"
    assert page.text.count("\n") == 1


@pytest.mark.parametrize("value", ["wrong", "", TOKEN + "x", TOKEN[:-1], "ü"])
def test_a_wrong_token_stays_outside(door: AccessControl, value: str) -> None:
    assert (
        Client(door).get("/x", query_string={"token": value}, base_url="http://localhost").status_code == 401
    )
    assert ask(door, Authorization=f"Bearer {value}").status_code == 401


@pytest.mark.parametrize("value", ["wrong", "", TOKEN, '"', "\\", "a;b", "é"])
def test_a_wrong_cookie_stays_outside(door: AccessControl, value: str) -> None:
    assert ask(door, Cookie=f"{door.cookie}={value}").status_code == 401


def test_a_token_in_the_address_becomes_a_cookie_and_leaves_the_address(door: AccessControl) -> None:
    client = Client(door)
    answer = client.get(
        "/r/heat", query_string={"sel": "0:1,0:3", "token": TOKEN}, base_url="http://localhost"
    )
    assert answer.status_code == 303
    assert answer.headers["Location"] == "./heat?sel=0%3A1%2C0%3A3"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert client.get("/r/heat", base_url="http://localhost").text == "/r/heat?"


def test_a_program_shows_it_in_a_header(door: AccessControl) -> None:
    assert ask(door, Authorization=f"Bearer {TOKEN}").status_code == 200
    assert ask(door, Authorization=f"bearer  {TOKEN}").status_code == 200
    assert ask(door, Authorization=f"Basic {TOKEN}").status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("LOGIN7.example:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("", 403),
    ],
)
def test_only_names_of_ours_are_served_even_with_the_token(
    door: AccessControl, host: str, status: int
) -> None:
    assert ask(door, Host=host, Authorization=f"Bearer {TOKEN}").status_code == status


def test_a_link_from_another_site_is_tried_once_more_from_here(door: AccessControl) -> None:
    answer = ask(door, Accept="text/html", Sec_Fetch_Site="cross-site")
    assert answer.headers["Refresh"] == "0"
    assert "Refresh" not in ask(door, Accept="text/html", Sec_Fetch_Site="same-origin").headers
    assert "Refresh" not in ask(door, Sec_Fetch_Site="cross-site").headers


def let_in(door: AccessControl) -> str:
    """A cookie, as the browser gives it back."""
    address = {"query_string": {"token": TOKEN}, "base_url": "http://localhost"}
    given: str = Client(door, use_cookies=False).get("/x", **address).headers["Set-Cookie"]  # type: ignore[arg-type]
    return given.partition(";")[0]


def next_server() -> AccessControl:
    """A server that was started later, with the same token."""
    return AccessControl(inner, TOKEN, key=b"another")


def answered(challenge: str, key: str, host: str) -> str:
    """What a page shows for a challenge."""
    shown = hmac.new(key.encode(), f"{challenge} {host}".encode(), hashlib.sha256).hexdigest()
    return f"chimbuko {challenge} {shown}"


def test_a_cookie_is_of_no_use_with_the_next_server(door: AccessControl) -> None:
    cookie = let_in(door)
    assert ask(door, Cookie=cookie).status_code == 200
    assert ask(next_server(), Cookie=cookie).status_code == 401


def test_a_cookie_that_is_used_is_renewed_and_one_that_is_not_ends(
    door: AccessControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie, now_s = let_in(door), time.time()
    assert "Set-Cookie" not in ask(door, Cookie=cookie).headers
    monkeypatch.setattr("time.time", lambda: now_s + 0.6 * COOKIE_S)
    renewed = ask(door, Cookie=cookie).headers["Set-Cookie"].partition(";")[0]
    monkeypatch.setattr("time.time", lambda: now_s + 1.1 * COOKIE_S)
    assert ask(door, Cookie=cookie).status_code == 401
    assert ask(door, Cookie=renewed).status_code == 200


def test_an_open_page_comes_back_to_the_next_server(door: AccessControl) -> None:
    """By what it was told once, and does not send."""
    key = msgspec.json.decode(ask(door, "/r/x/page-key", Cookie=let_in(door)).data)["key"]
    assert ask(door, "/page-key").status_code == 401
    later = next_server()
    challenge = ask(later, Host="localhost:80").headers["X-Chimbuko-Challenge"]
    answer = answered(challenge, key, "localhost:80")
    assert ask(door, Host="localhost:80", Authorization=answer).status_code == 401
    back = ask(later, Host="localhost:80", Authorization=answer)
    assert back.status_code == 200
    assert ask(later, Cookie=back.headers["Set-Cookie"].partition(";")[0]).status_code == 200


def test_no_challenge_is_answered_for_a_page_at_another_port(
    door: AccessControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger there would pass it on."""
    assert "X-Chimbuko-Challenge" not in ask(door, Host="localhost:81").headers
    key = msgspec.json.decode(ask(door, "/page-key", Cookie=let_in(door)).data)["key"]
    challenge = ask(door, Host="localhost:80").headers["X-Chimbuko-Challenge"]
    for_stranger = answered(challenge, key, "localhost:81")
    assert ask(door, Host="localhost:80", Authorization=for_stranger).status_code == 401
    assert ask(door, Host="localhost:81", Authorization=for_stranger).status_code == 401
    good, now_s = answered(challenge, key, "localhost:80"), time.time()
    assert ask(door, Host="localhost:80", Authorization=good).status_code == 200
    monkeypatch.setattr("time.time", lambda: now_s + ANSWER_S + 2.0)
    assert ask(door, Host="localhost:80", Authorization=good).status_code == 401


@pytest.mark.parametrize("answer", ["", "x", "x y", ". .", "é é", "1.2.3 4"])
def test_a_wrong_answer_stays_outside(door: AccessControl, answer: str) -> None:
    assert ask(door, Host="localhost:80", Authorization=f"chimbuko {answer}").status_code == 401


def test_dashboards_of_one_host_have_different_cookies() -> None:
    assert AccessControl(inner, "a").cookie != AccessControl(inner, "b").cookie


def test_host_names() -> None:
    assert [host_name(text) for text in ("a:1", "A", "[::1]:2", "[::1]")] == ["a", "a", "::1", "::1"]
    for crooked in ("[::1].evil.example", "[::1]:80.evil.example", "localhost:80@evil.example", "", "[::1"):
        assert host_name(crooked) == ""
