"""What text becomes which tree, and which text is refused before anybody looks at keys."""

import json

import pytest
import yaml

from slackwater.configuration import text_tree
from slackwater.configuration.problems import Problem, UnreadableSettings
from slackwater.configuration.text_tree import Ambiguous, as_yaml_1_1, read_document

BOTH_PARSERS = pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader], ids=["python", "libyaml"])


@BOTH_PARSERS
@pytest.mark.parametrize(
    ("text", "want_tree"),
    [
        pytest.param("a: 1\nb: [x, 2.5, true, ~]", {"a": 1, "b": ["x", 2.5, True, None]}, id="yaml"),
        pytest.param('{"a": 1,\t"b": "\\/ \\ud83d\\ude00"}', {"a": 1, "b": "/ \U0001f600"}, id="json-with-tab-and-escapes"),
        pytest.param("{a: 1, b: [2]}", {"a": 1, "b": [2]}, id="yaml-flow"),
        pytest.param("\ufeffa: 1", {"a": 1}, id="byte-order-mark"),
        pytest.param("", None, id="empty"),
        pytest.param("a: 0x10\nb: 0o17\nc: 1e3\nd: -.5", {"a": 16, "b": 15, "c": 1000.0, "d": -0.5}, id="numbers"),
        pytest.param(
            "a: 1_000\nb: 1:30\nc: 2020-01-02\nd: 0b1",
            {"a": "1_000", "b": "1:30", "c": "2020-01-02", "d": "0b1"},
            id="numbers-of-yaml-1.1-only-are-text",
        ),
        pytest.param("a: 'on'\nb: \"010\"\nc: |\n  no", {"a": "on", "b": "010", "c": "no"}, id="quoted-text-stays-text"),
        pytest.param("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="alias"),
        pytest.param("on: 1\n1: 2\ntrue: 3", {"on": 1, "1": 2, "true": 3}, id="keys-are-text"),
    ],
)
def test_text_becomes_this_tree(
    loader: type[yaml.SafeLoader], text: str, want_tree: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tree, "_LOADER", loader)
    read = read_document(text, "K")
    assert read.tree == want_tree
    assert read.problems == ()


@pytest.mark.parametrize("text", ["on", "Off", "YES", "no", "y", "N"])
def test_truth_values_of_yaml_1_1_are_neither_text_nor_true_nor_false(text: str) -> None:
    tree = read_document(f"a: {text}", "K").tree
    want_old = text.lower() in ("on", "yes", "y")
    assert tree == {"a": Ambiguous(text=text, old=want_old)}
    assert as_yaml_1_1(tree) == {"a": want_old}


def test_a_leading_zero_is_ambiguous() -> None:
    tree = read_document("a: [010, 0, 08]", "K").tree
    assert tree == {"a": [Ambiguous(text="010", old=8), 0, 8]}
    assert as_yaml_1_1(tree) == {"a": [8, 0, 8]}


@BOTH_PARSERS
@pytest.mark.parametrize(
    ("text", "want_problem"),
    [
        pytest.param(
            "a: 1\nb:\n  c: 1\n  c: 2",
            Problem(path="b.c", seen="the key a second time on line 4", wanted="each key once"),
            id="duplicate-in-yaml",
        ),
        pytest.param(
            '{"b": [{"c": 1, "c": 2}]}',
            Problem(path="b[0].c", seen="the key a second time", wanted="each key once"),
            id="duplicate-in-json",
        ),
        pytest.param(
            "a: !!python/name:os.system x",
            Problem(path="a", seen="the tag tag:yaml.org,2002:python/name:os.system on line 1", wanted="no tags"),
            id="tag",
        ),
        pytest.param(
            "<<: {a: 1}",
            Problem(path='["<<"]', seen="a merge key on line 1", wanted="the keys themselves (YAML 1.2 has no merge)"),
            id="merge-key",
        ),
        pytest.param(
            "a: {? [1] : 2}", Problem(path="a", seen="a key that is no text on line 1", wanted="texts as keys"), id="key"
        ),
        pytest.param(
            '{"a": "\\ud800"}',
            Problem(path="a", seen='half a surrogate pair in "\\ud800"', wanted="whole characters"),
            id="half-a-character",
        ),
        pytest.param(
            f"a: {'9' * 401}",
            Problem(path="a", seen="401 characters without quotes that start like a number", wanted="quotes around text"),
            id="endless-number",
        ),
    ],
)
def test_a_trap_is_reported_and_the_rest_still_read(
    loader: type[yaml.SafeLoader], text: str, want_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tree, "_LOADER", loader)
    read = read_document(text, "K")
    assert read.problems == (want_problem,)
    assert isinstance(read.tree, dict)


def _billion_laughs() -> str:
    lines = ["a0: &a0 [" + ", ".join(["x"] * 10) + "]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 10)]
    return "\n".join(lines)


@BOTH_PARSERS
@pytest.mark.parametrize(
    ("text", "want_seen"),
    [
        pytest.param("a: [", "a syntax error on line", id="syntax"),
        pytest.param("a: \x07", "not allowed", id="control-character"),
        pytest.param("a: 1\n---\nb: 2", "a second document on line 2", id="two-documents"),
        pytest.param("a: *b", "the alias *b on line 1 before its anchor", id="unknown-alias"),
        pytest.param("a: &a [*a]", "the alias *a on line 1 before its anchor", id="endless-alias"),
        pytest.param(_billion_laughs(), "more than 200000 values", id="billion-laughs"),
        pytest.param("[" * 5000, "more than 32 levels", id="deep-list"),
        pytest.param("{" * 5000, "more than 32 levels", id="deep-keys"),
        pytest.param("- " * 5000, "more than 32 levels", id="deep-block"),
        pytest.param('{"a":' * 100_000, "endless nesting", id="deep-json"),
        pytest.param("a" * (1 << 20) + "b", "1048577 characters", id="too-large"),
    ],
)
def test_a_text_without_a_usable_tree_is_unreadable(
    loader: type[yaml.SafeLoader], text: str, want_seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tree, "_LOADER", loader)
    with pytest.raises(UnreadableSettings) as caught:
        read_document(text, "K")
    (problem,) = caught.value.problems
    assert want_seen in problem.seen


_HELD = "apiVersion: x/v1\nkind: K\na: 1\n"


def a_config_map(**data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(a_config_map(config=_HELD, script="echo")),
        yaml.safe_dump(a_config_map(config=_HELD)),
        json.dumps({"kind": "List", "items": [a_config_map(config=_HELD), a_config_map(other="x: [")]}),
        f"apiVersion: v1\nkind: ServiceAccount\n---\n{yaml.safe_dump(a_config_map(config=_HELD))}---\nkind: Deployment\n",
    ],
)
def test_a_document_in_a_config_map_is_read(text: str) -> None:
    assert read_document(text, "K") == read_document(_HELD, "K")


@pytest.mark.parametrize("data", [{}, {"a": _HELD, "b": _HELD}, {"other": "kind: Z"}])
def test_a_config_map_without_just_one_such_text_is_refused(data: dict[str, str]) -> None:
    with pytest.raises(UnreadableSettings, match="texts with kind: K"):
        read_document(json.dumps(a_config_map(**data)), "K")


def test_a_second_document_beside_a_plain_one_is_still_refused() -> None:
    with pytest.raises(UnreadableSettings, match="a second document"):
        read_document(f"{_HELD}---\nkind: ConfigMap\n", "K")
