"""What commands show on a terminal and nowhere else: a line that says what takes so long, and tables no wider than it."""

import copy
import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from slackwater.app.progress import shown
from tests.support.manifests import GROUP
from tests.unit.app.test_simulate_command import CLUSTER, NODES, a_pod
from tests.unit.runtime.test_record_file import recorded

#: Erase the whole line; how a line that is gone ends.
GONE = "\x1b[2K"
WIDTH = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    cluster = copy.deepcopy(CLUSTER)
    for item in cluster["items"]:
        if item["kind"] == "Node":
            item["metadata"].setdefault("labels", {})[GROUP] = "pool"
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster))
    return path


def read_all(reader: int) -> str:
    reported = b""
    while select.select([reader], [], [], 240)[0]:
        try:
            part = os.read(reader, 65536)
        except OSError:  # the last writer has closed
            break
        if not part:
            break
        reported += part
    return reported.decode()


def ran(*argv: str, out: bool = False, err: bool = False, to: Path | None = None) -> tuple[str, str, str]:
    """stdout, stderr, and what the terminal showed that `out` and `err` put there; `to` is a file for stdout."""
    reader, writer = pty.openpty()
    with os.fdopen(writer, "wb") as terminal, (to or Path(os.devnull)).open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", *argv],
            stdin=subprocess.DEVNULL,
            stdout=terminal if out else file if to else subprocess.PIPE,
            stderr=terminal if err else subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "COLUMNS": str(WIDTH), "LINES": "40"},
        )
    shown = read_all(reader) if out or err else ""
    os.close(reader)
    reported, complained = process.communicate(timeout=240)
    assert process.returncode == 0, (shown, complained)
    return (reported or b"").decode(), (complained or b"").decode(), shown


def test_a_command_without_a_terminal_is_quiet_and_prints_json(cluster: Path) -> None:
    for what in ("placement", "scale-up", "scale-down"):
        out, err, _ = ran("simulate", what, "--cluster", str(cluster))
        assert err == ""
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
        assert out


@pytest.mark.parametrize("what", ["placement", "scale-up", "scale-down"])
def test_a_terminal_on_stderr_shows_what_is_done_and_keeps_nothing_of_it(cluster: Path, what: str) -> None:
    out, _, seen = ran("simulate", what, "--cluster", str(cluster), err=True)
    assert "reading" in seen
    assert "planning: 2 pending pods, 2 nodes" in seen or "judging pods" in seen
    assert GONE in seen.rsplit("pods", 1)[1]
    assert "\x1b" not in out, "JSON has nothing of the line in it"
    for line in out.splitlines():
        json.loads(line)


def test_the_line_stays_while_answers_go_into_a_file(tmp_path: Path) -> None:
    many = tmp_path / "many.json"
    many.write_text(json.dumps({**CLUSTER, "items": [*NODES, *(a_pod(f"p{number}") for number in range(300))]}))
    answers = tmp_path / "answers.jsonl"
    _, _, seen = ran("simulate", "placement", "--cluster", str(many), err=True, to=answers)
    assert len(answers.read_text().splitlines()) == 300
    assert "judging pods" in seen


def test_on_a_terminal_the_default_is_a_table_that_keeps_within_it(cluster: Path) -> None:
    _, _, seen = ran("simulate", "placement", "--cluster", str(cluster), out=True)
    lines = seen.splitlines()
    assert "POD" in lines[0]
    assert "\x1b[2mPOD" in lines[0], "headings stand back"
    assert max(map(len, lines[1:])) <= WIDTH
    assert "1 of 2 pods fit somewhere" in lines[-1]
    words = " ".join(seen.split())
    assert "shop/large 0/2 1 Insufficient cpu, 1 node(s) had" in words, "a long cell goes on below, in its column"


def test_replay_counts_the_bytes_of_the_record(tmp_path: Path) -> None:
    path = tmp_path / "r.rec"
    anyio.run(partial(recorded, path, pods=300))
    out, _, seen = ran("replay", str(path), err=True)
    assert out.splitlines()[-1].endswith("differences=0")
    assert "repeating" in seen
    assert "%" in seen


def test_the_demo_says_what_it_waits_for_until_it_is_ready() -> None:
    _, _, seen = ran("demo", "--nodes", "3", "--pods", "5", "--duration", "1s", err=True)
    before, ready, after = seen.partition("Ready after")
    assert ready
    assert "starting the sandbox cluster" in before
    assert before.rstrip().endswith(GONE)
    assert "creating" not in after


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    reader, writer = pty.openpty()
    yield reader, writer
    os.close(reader)


def test_a_failure_leaves_no_progress_line(terminal: tuple[int, int]) -> None:
    reader, writer = terminal
    with os.fdopen(writer, "w") as stream, pytest.raises(ZeroDivisionError), shown(stream) as progress:
        sum(progress.counted((1 // number for number in (2, 1, 0)), "dividing", total=3))
    assert read_all(reader).rstrip().endswith((GONE, "\x1b[?25h", "\x1b[1A\x1b[2K"))


def test_where_there_is_no_terminal_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as stream, shown(stream) as progress:
        assert list(progress.counted(range(3), "counting", total=3)) == [0, 1, 2]
    assert path.read_text() == ""
