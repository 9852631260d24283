"""The commands and the snippets of README, pages and examples, as a reader finds them.

Flows out: `commands()` and `snippets()`, in the order of the pages. A block marked `sh` has commands up to its first empty
line; what follows is what they print. Text in backquotes is a command if it begins with the name of a program. `run` runs
those of ours in this process. Deliberately absent: what a command needs, and what should come of it.
"""

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from slackwater.cli.main import main

#: All but the ADRs and the changelog, which are about the past.
PAGES: Final = (
    *sorted(path for path in Path().glob("*.md") if path.name != "CHANGELOG.md"),
    *sorted(path for path in Path("docs").rglob("*.md") if "adr" not in path.parts),
    *sorted(path for folder in ("deploy", "examples", "protocol", "service") for path in Path(folder).rglob("*.md")),
)
PROGRAMS: Final = frozenset(
    ["slackwater", "kubectl", "helm", "make", "curl", "python", "pip", "pipx", "uv", "docker", "podman", "skopeo", "git", "gh"]
) | {"kube-scheduler", "ssh-keygen", "sha256sum", "apt-get", ".venv/bin/slackwater", ".venv/bin/python"}
_HEREDOC: Final = re.compile(r"<<(\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Command:
    """One command line, with its here-document and continued lines. `block`: the line of its block; 0: in backquotes."""

    page: str
    line: int
    block: int
    text: str

    @property
    def words(self) -> list[str]:
        """Of its first line, without comment and assignments."""
        words = shlex.split(self.text, comments=True)
        return words[next(i for i, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)) :]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block that is no commands."""

    page: str
    line: int
    language: str
    text: str


def _blocks(page: Path) -> Iterator[tuple[Token, int]]:
    """Blocks of code and texts in backquotes, with their lines."""
    for token in MarkdownIt().enable("table").parse(page.read_text()):
        line = token.map[0] + 1 if token.map else 0
        if token.type in {"fence", "code_block"}:
            yield token, line
        for child in token.children or ():
            if child.type == "code_inline":
                yield child, line


def _complete(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    ends = _HEREDOC.findall(text)
    return not text.endswith("\\") and all(text.endswith(f"\n{end}") for end in ends)


def _of_block(page: Path, token: Token, line: int) -> Iterator[Command]:
    begun: list[str] = []
    for number, text in enumerate(token.content.partition("\n\n")[0].splitlines(), line + 1):
        begun.append(text)
        if _complete("\n".join(begun)):
            yield from (Command(str(page), number, line, part) for part in "\n".join(begun).split(" && "))
            begun = []
    assert not begun, f"{page}:{line}: the block ends within a command"


def commands() -> Iterator[Command]:
    """All commands."""
    for page in PAGES:
        for token, line in _blocks(page):
            if token.type == "code_inline":
                first, space, _ = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", token.content).partition(" ")
                if space and first in PROGRAMS:
                    yield from (Command(str(page), line, 0, part) for part in token.content.split(" && "))
            elif token.info == "sh":
                yield from _of_block(page, token, line)


def snippets() -> Iterator[Snippet]:
    """All blocks that are not marked `sh`. An indented one, which has no mark, has the language ""."""
    for page in PAGES:
        for token, line in _blocks(page):
            if token.type != "code_inline" and token.info != "sh":
                yield Snippet(str(page), line, token.info, token.content)


def objects_in(found: Any) -> Iterator[dict[str, Any]]:
    """What looks like an object of the API in a decoded snippet, at any depth."""
    if isinstance(found, dict) and "kind" in found and {"metadata", "spec"} & {*found}:
        yield found
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from objects_in(part)


def needs_cluster(command: Command) -> bool:
    """Asks it an API server or a running service?"""
    program, *rest = command.words
    asks = {*rest[:1]} & {"explain", "history", "dumpstate", "drains", "pause", "resume", "cleanup", "doctor", "report"}
    on_a_file = rest[:1] not in (["simulate"], ["worth"]) or "--cluster" in rest
    asks -= {"report"} if "--log" in rest else set()
    return program in {"kubectl", "helm", "curl"} or (program.endswith("slackwater") and bool(asks or not on_a_file))


def run(text: str) -> tuple[int, str]:
    """Runs a command of ours here, where a process of its own would cost a second of CPU. As in a shell, a comment is none of
    it, and `> FILE` takes what it prints. Returns its exit code and all that it says."""
    words = shlex.split(text, comments=True)
    printed, file = io.StringIO(), None
    if ">" in words:
        file = words[words.index(">") + 1]
        del words[words.index(">") :]
    said = printed if file is None else io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        code = main(words[1:])
    if file is not None:
        Path(file).write_text(printed.getvalue())
    return code, said.getvalue()
