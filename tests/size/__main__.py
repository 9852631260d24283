"""Prints a table of sizes, one column for each commit: `python -m tests.size f7cde3cc HEAD`. Without one: the working tree.

Code lines are those of service/src and protocol/src that hold a token other than a comment or a docstring; what protoc
generates is left out. Settings and metrics are the rows of the generated tables in docs/, targets those of the Makefile.
Modes are the ways in which a pod can be placed: the combinations of the settings that choose one. Walks: see `walks`.
"""

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.size.walks import Code, Walk

_SOURCES: Final = ("service/src", "protocol/src")
_OTHERS: Final = ("Makefile", "docs/configuration.md", "docs/operations.md")
_DOCUMENTED: Final = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_NO_CODE: Final = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
#: Settings with two values each that choose how pods are placed, now or at an earlier commit.
_MODES: Final = ("bind", "Steering")
#: Each parameter that is followed, with where it starts; the names that the start has had.
WALKS: Final = {
    "filter's pod": (("PlacementFlow.filter",), "pod"),
    "agents' request": (("Agents.answer", "AgentsApp.answer"), "request"),
    "scale-up plan's demand": (("plan_scale_up",), "demand"),
}


def files_at(commit: str | None) -> dict[str, str]:
    """The text of each file that is counted, by its path; None: of the working tree."""
    if commit is None:
        paths = [path for folder in _SOURCES for path in Path(folder).rglob("*.py")]
        return {str(path): path.read_text("utf-8") for path in (*paths, *map(Path, _OTHERS))}
    archive = subprocess.run(["git", "archive", commit, *_SOURCES, *_OTHERS], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return {each.name: file.read().decode() for each in members if (file := members.extractfile(each)) is not None}


def code_lines(text: str) -> int:
    """How many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def _rows(page: str, part: str) -> list[str]:
    """The first cell of each row in a generated part of a page."""
    [inside] = re.findall(rf"<!-- generated: {part} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    return re.findall(r"^\| `(\w+)", inside, re.MULTILINE)


def sizes(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The rows of the table, as name and value."""
    modules = {path: text for path, text in files.items() if path.startswith(_SOURCES) and path.endswith(".py")}
    modules = {path: text for path, text in modules.items() if not path.endswith("_pb2.py")}
    settings = _rows(files["docs/configuration.md"], "settings")
    yield "code lines", f"{sum(map(code_lines, modules.values())):,}"
    yield "files", str(len(modules))
    functions = (node for text in modules.values() for node in ast.walk(ast.parse(text)))
    yield "functions", f"{sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in functions):,}"
    yield "settings", str(len(settings))
    metrics = _rows(files["docs/operations.md"], "metrics")
    yield (
        "metrics (of these with Cluster Autoscaler's names)",
        f"{len(metrics)} ({sum('slackwater' not in n for n in metrics)})",
    )
    yield "make targets", str(len(re.findall(r"^\.PHONY: ", files["Makefile"], re.MULTILINE)))
    yield "modes of placing", str(2 ** sum(key in settings for key in _MODES))
    code = Code(modules)
    for name, (starts, parameter) in WALKS.items():
        walk = Walk(code, starts, parameter)
        yield f"walk of {name}: stays, files, returns, names", ", ".join(map(str, walk.counts()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="*", help="a commit; without any, the working tree is counted")
    commits = parser.parse_args().commit or [None]
    columns = [dict(sizes(files_at(commit))) for commit in commits]
    print("| | " + " | ".join(commit or "working tree" for commit in commits) + " |\n|---|" + "--:|" * len(commits))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(column[name] for column in columns) + " |")


if __name__ == "__main__":
    main()
