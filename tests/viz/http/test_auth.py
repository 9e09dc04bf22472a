"""Who may come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from werkzeug.test import Client, TestResponse

from chimbuko.viz.http.auth import AccessControl, host_name

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


def test_dashboards_of_one_host_have_different_cookies() -> None:
    assert AccessControl(inner, "a").cookie != AccessControl(inner, "b").cookie


def test_host_names() -> None:
    assert [host_name(text) for text in ("a:1", "A", "[::1]:2", "[::1]")] == ["a", "a", "::1", "::1"]
    for crooked in ("[::1].evil.example", "[::1]:80.evil.example", "localhost:80@evil.example", "", "[::1"):
        assert host_name(crooked) == ""
