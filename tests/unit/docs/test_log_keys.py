"""The keys of log lines are a closed list: those of docs/operations.md, no more and no fewer; what happened is fixed text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
_LEVELS = {"debug", "info", "warning", "error", "exception"}
#: What the processors add, and what they turn into it.
_ADDED = {"event", "level", "logger", "timestamp", "exception"}
_TURNED = {"exc_info"}


def calls() -> Iterator[tuple[str, ast.Module, ast.Call]]:
    """Every line that the service logs, with its place and module."""
    for path in sorted((ROOT / "service" / "src" / "slackwater").rglob("*.py")):
        text = path.read_text("utf-8")
        if "_log." not in text:
            continue
        module = ast.parse(text)
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEVELS:
                whose = node.func.value
                if isinstance(whose, ast.Name) and whose.id == "_log":
                    yield f"{path.name}:{node.lineno}", module, node


def keys_of(module: ast.Module, call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg
            continue
        asked = [part.func for part in ast.walk(keyword.value) if isinstance(part, ast.Call)]
        reported = {name.id for name in asked if isinstance(name, ast.Name)}
        found = [item for item in module.body if isinstance(item, ast.FunctionDef) and item.name in reported]
        assert found, "the keys of ** are those that a function of the module returns"
        for function in found:
            [returned] = [item.value for item in ast.walk(function) if isinstance(item, ast.Return)]
            assert isinstance(returned, ast.Dict)
            yield from (str(key.value) for key in returned.keys if isinstance(key, ast.Constant))


KNOWN = {
    key
    for row in PAGE.partition("## Logs\n")[2].partition("\n## ")[0].splitlines()
    if row.startswith("| `")
    for key in re.findall(r"`(\w+)`", row.split("|")[1])
}


def test_every_key_of_a_line_is_in_the_table_and_every_key_of_the_table_in_some_line() -> None:
    used = {key: place for place, module, call in calls() for key in keys_of(module, call)}
    assert {key: place for key, place in used.items() if key not in KNOWN | _TURNED} == {}
    assert KNOWN - used.keys() == _ADDED


def test_what_happened_is_one_of_a_few_fixed_texts() -> None:
    """So that lines can be searched for: no names, no amounts in it."""
    for place, _, call in calls():
        [what] = call.args
        texts = [what.body, what.orelse] if isinstance(what, ast.IfExp) else [what]
        assert all(isinstance(text, ast.Constant) and isinstance(text.value, str) for text in texts), place
