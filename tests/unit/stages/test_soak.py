"""What is long and random takes turns until time is up; a part that fails stops none of the others."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stages.soak import PARTS, Part, main, soak

ROOT = Path(__file__).parents[3]
ABC = [Part(target="a", seeded=True), Part(target="b", variables=("N=3",)), Part(target="c")]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.played: list[Sequence[str]] = []

    def play(self, arguments: Sequence[str], _log: Path) -> int:
        self.played.append(arguments)
        self.now += 10.0
        return int(arguments[0] == "b")


@pytest.mark.parametrize(("duration", "want"), [(0.0, "abc"), (45.0, "abcab"), (60.0, "abcabc")])
def test_parts_take_turns_until_time_is_up_and_each_is_played_once_at_least(tmp_path: Path, duration: float, want: str) -> None:
    clock = Clock()
    played, failures = soak(duration, ABC, play=clock.play, folder=tmp_path, clock=lambda: clock.now, tell=lambda _: None)
    assert "".join(arguments[0] for arguments in clock.played) == want
    assert sum(played.values()) == len(want)
    assert [failure.command for failure in failures] == ["make b N=3"] * want.count("b")
    assert len({failure.log for failure in failures}) == len(failures)


def test_seeds_are_fresh(tmp_path: Path) -> None:
    clock = Clock()
    soak(60.0, ABC, play=clock.play, folder=tmp_path, clock=lambda: clock.now, tell=lambda _: None)
    first, second = (arguments for arguments in clock.played if arguments[0] == "a")
    assert first != second


def test_every_part_is_a_target_of_the_makefile() -> None:
    text = (ROOT / "Makefile").read_text()
    assert [part.target for part in PARTS if f"\n{part.target}:" not in text] == []


def test_what_is_no_duration_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soon"]) == 2
    assert "want one duration" in capsys.readouterr().err
