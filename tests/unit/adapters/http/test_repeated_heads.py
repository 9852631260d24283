"""Which requests are recognized by their heads, and which are left to the parser. That this changes no answer is a law
(tests/laws/adapters/test_repeated_heads_laws.py)."""

import pytest

from slackwater.adapters.http.application import Request
from slackwater.adapters.http.request_parser import RepeatedHeads


def a_call(verb: str, body: bytes, *, note: str = "a") -> bytes:
    lines = f"POST /scheduler/{verb} HTTP/1.1", "Host: t", f"X-Note: {note}", f"Content-Length: {len(body)}", "Accept: gzip"
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def knowing(*verbs: str) -> RepeatedHeads:
    heads = RepeatedHeads()
    for verb in verbs:
        heads.learn(a_call(verb, b"abc"), Request("POST", f"/scheduler/{verb}", b"abc"))
    return heads


def test_verbs_in_turn_are_recognized_whatever_their_bodies() -> None:
    heads = knowing("filter", "prioritize", "bind")
    for verb, body in (("filter", b"0123456789"), ("prioritize", b""), ("bind", b"abc"), ("filter", b"a\r\n\r\nb")):
        assert heads.request_in(a_call(verb, body)) == Request("POST", f"/scheduler/{verb}", body)


@pytest.mark.parametrize("ends", [0, 1, 40, -4, -1])
def test_a_part_of_a_request_is_left_to_the_parser(ends: int) -> None:
    assert knowing("filter").request_in(a_call("filter", b"abcd")[:ends]) is None


def test_another_head_is_left_to_the_parser_until_it_is_learned() -> None:
    heads = knowing("filter")
    other = a_call("filter", b"abc", note="b")
    assert heads.request_in(other) is None
    heads.learn(other, Request("POST", "/scheduler/filter", b"abc", headers=((b"x-note", b"b"),)))
    assert heads.request_in(other) == Request("POST", "/scheduler/filter", b"abc", headers=((b"x-note", b"b"),))
    assert heads.request_in(a_call("filter", b"abc")) is None


def test_only_a_few_heads_are_kept_and_no_long_one() -> None:
    verbs = [f"verb-{number}" for number in range(100)]
    heads = knowing(*verbs)
    assert [heads.request_in(a_call(verb, b"")) is not None for verb in verbs] == [True] * 4 + [False] * 96
    long = a_call("filter", b"abc", note="x" * 3000)
    heads = knowing()
    heads.learn(long, Request("POST", "/scheduler/filter", b"abc"))
    assert heads.request_in(long) is None
