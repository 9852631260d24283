"""How a build shows where it is: on a terminal, and anywhere else."""

import io
import os
import pty
import select
from collections.abc import Iterator

import pytest

from tests.support.controlplane.build import BuildStep
from tests.support.controlplane.progress import shown_on


def a_step(seconds: float, packages: int = 0) -> BuildStep:
    return BuildStep(name="etcd", index=4, total=9, seconds=seconds, packages=packages)


def test_without_a_terminal_a_step_is_a_line_at_its_start_and_one_at_its_end() -> None:
    stream = io.StringIO()
    with shown_on(stream) as progress:
        progress(a_step(0.0))
        progress(a_step(1.0, 1))
        progress(a_step(2.0, 2))
        progress(BuildStep(name="etcd", index=4, total=9, seconds=2.5, packages=2, state="done"))

    assert stream.getvalue().splitlines() == [
        "[4/9] building the control plane: etcd ...",
        "[4/9] building the control plane: etcd, 2 packages compiled: 2.5 s",
    ]


def test_without_a_terminal_a_long_step_gives_a_sign_of_life_every_30_seconds() -> None:
    stream = io.StringIO()
    with shown_on(stream) as progress:
        for second in range(100):
            progress(a_step(float(second), packages=second))

    assert stream.getvalue().splitlines()[1:] == [
        f"[4/9] building the control plane: etcd, {n} packages compiled ..." for n in (30, 60, 90)
    ]


@pytest.fixture
def terminal() -> Iterator[tuple[io.TextIOWrapper, int]]:
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as stream:
        yield stream, reader
    os.close(reader)


def read_until(reader: int, text: str) -> str:
    shown = ""
    while text not in shown:
        assert select.select([reader], [], [], 10)[0], f"want {text!r}, got {shown!r} and no more"
        shown += os.read(reader, 65536).decode()
    return shown


def test_on_a_terminal_all_steps_share_one_line_that_is_gone_at_the_end(
    terminal: tuple[io.TextIOWrapper, int],
) -> None:
    stream, reader = terminal
    with shown_on(stream) as progress:
        progress(a_step(0.0))
        progress(a_step(1.0, 812))
        assert "\n" not in read_until(reader, "etcd, 812 packages compiled")
    stream.write("end")
    stream.flush()

    erase_line = "\x1b[2K"
    assert read_until(reader, "end").endswith(f"{erase_line}end")


def test_a_cached_build_shows_nothing(terminal: tuple[io.TextIOWrapper, int]) -> None:
    plain = io.StringIO()
    stream, reader = terminal
    for shown in (plain, stream):
        with shown_on(shown):
            pass
        shown.write("end")
        shown.flush()

    assert plain.getvalue() == "end"
    assert os.read(reader, 100) == b"end"
