"""Every module says what it is and stays small enough to be read at once; nothing in the sources is unused."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vulture.core import Vulture

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = ("protocol/src", "service/src")
MODULES: Final = sorted(
    path for folder in (*SOURCES, "tests") for path in (ROOT / folder).rglob("*.py") if not path.name.endswith("_pb2.py")
)
#: Files of 60 to 300 lines are the rule; the bound only stops what nobody would read at once.
MOST_LINES_OF_A_FILE: Final = 600
MOST_LINES_OF_A_FUNCTION: Final = 60

#: Called by others, by name: asyncio and httptools (direct.py), pydantic, uvicorn, yaml; and what callers of the protocol use.
_CALLED_FROM_OUTSIDE: Final = {
    "_check_value",  # argparse
    "connection_made",
    "send_400_response",
    "connection_lost",
    "data_received",
    "eof_received",
    "pause_writing",
    "resume_writing",
    "on_message_begin",
    "on_url",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "field_title_should_be_set",
    "get_default_value",
    "capture_signals",
    "ignore_aliases",
    "__call__",
    "__getattr__",
    "__dir__",
}
#: Used from without: by authors of agents, by tests that look inside or cause trouble in the sandbox.
_OFFERED: Final = {
    "AgentClient",
    "reader_role",
    "firing",
    "parse_non_negative_duration",
    "selecting",
    "detach",
    "forget_lists",
    "compact",
    "shutdown",
    "same_as",
}
#: Decorators that hand a function to whoever calls it.
_HANDED_ON: Final = ("@*.get", "@*.post", "@*validator", "@*serializer", "@*.exception_handler")


def texts() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def test_every_module_says_what_it_is() -> None:
    """What begins with a text needs no closer look."""
    unclear = [(name, text) for name, text in texts() if text and not re.match(r'"""\w', text)]
    assert [name for name, text in unclear if not ast.get_docstring(ast.parse(text))] == []


def test_no_file_is_too_long() -> None:
    assert [(name, lines) for name, text in texts() if (lines := text.count("\n")) > MOST_LINES_OF_A_FILE] == []


def test_no_function_is_too_long() -> None:
    found = [
        (name, node.name, (node.end_lineno or 0) - node.lineno + 1)
        for name, text in texts()
        if text.count("\n") >= MOST_LINES_OF_A_FUNCTION
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert [each for each in found if each[2] > MOST_LINES_OF_A_FUNCTION] == []


def test_nothing_in_the_sources_is_unused() -> None:
    """Functions, classes and imports that no other line of the sources or of the generators in deploy/ names. Fields are read
    by serialisers."""
    vulture = Vulture(ignore_names=sorted(_CALLED_FROM_OUTSIDE | _OFFERED), ignore_decorators=list(_HANDED_ON))
    vulture.scavenge([str(ROOT / folder) for folder in (*SOURCES, "deploy")], exclude=["*_pb2.py"])
    kinds = {"function", "class", "method", "property", "import"}
    assert [f"{item.filename}: {item.name}" for item in vulture.get_unused_code() if item.typ in kinds] == []
