"""`python -m tests.stages.soak DURATION`: what is long and random, with fresh seeds, one part after another until time is up.

Each part prints its seeds, and how to repeat what it found. A part that fails is kept with all it printed; the others go on.
Exit status: 0, 1 where a part failed, 2 for what is no duration, 130 after Ctrl-C.
"""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slackwater_protocol.durations import DurationError, parse_duration, seconds

FOLDER: Final = Path(__file__).parents[1] / "output" / "soak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A target of the Makefile with its variables, some minutes long; SEED is a fresh one where `seeded`."""

    target: str
    variables: tuple[str, ...] = ()
    seeded: bool = False

    @property
    def name(self) -> str:
        return " ".join((self.target, *self.variables))

    def arguments(self, seed: int) -> list[str]:
        return [self.target, *self.variables, *([f"SEED={seed}"] if self.seeded else ())]


PARTS: Final = (
    Part(target="faults", variables=("DURATION=5m",)),
    Part(target="laws"),
    Part(target="fuzz", variables=("CASES=100",)),
    Part(target="laws", variables=("TESTS=tests/laws/explain", "CASES=500")),
    Part(target="oracle", variables=("N=3000",), seeded=True),
    Part(target="laws", variables=("TESTS=tests/oracle",)),
    Part(target="laws", variables=("TESTS=tests/slos",)),
    Part(target="loads", seeded=True),
    Part(target="chaos", variables=("DURATION=5m",)),
    Part(target="cluster", variables=("KILLS=6",)),
    Part(target="cluster", variables=("SCALE_UP=1", "NODES=100", "PODS=4000")),
    Part(target="cluster", variables=("SCALE_DOWN=1", "NODES=60", "PODS=1200")),
    Part(target="cluster", variables=("FRESH=1",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A part that failed: its command, and the file of what it printed."""

    command: str
    log: Path


def soak(
    duration_seconds: float,
    parts: Sequence[Part],
    *,
    play: Callable[[Sequence[str], Path], int],
    folder: Path,
    clock: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = print,
) -> tuple[Counter[str], list[Failure]]:
    """How often each part was played, and what failed. Each part is played at least once; none begins when time is up."""
    folder.mkdir(parents=True, exist_ok=True)
    played: Counter[str] = Counter()
    failures: list[Failure] = []
    ends_at = clock() + duration_seconds
    while clock() < ends_at or sum(played.values()) < len(parts):
        part = parts[sum(played.values()) % len(parts)]
        arguments = part.arguments(secrets.randbits(31))
        log = folder / f"{sum(played.values()):04}-{part.target}.log"
        tell(f"make {' '.join(arguments)}")
        if play(arguments, log):
            failures.append(Failure(command=f"make {' '.join(arguments)}", log=log))
            tell(f"failed: {log}")
        played[part.name] += 1
    return played, failures


def make(arguments: Sequence[str], log: Path) -> int:
    """Runs targets with fresh seeds; the exit status."""
    environ = {**os.environ, "SLACKWATER_TEST_FRESH": "1"}
    with log.open("wb") as file:
        command = [os.environ.get("MAKE", "make"), "--no-print-directory", *arguments]
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environ, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    try:
        [text] = arguments
        duration = seconds(parse_duration(text))
    except (ValueError, DurationError) as error:
        print(f"want one duration, such as 1h: {error}", file=sys.stderr)
        return 2
    shutil.rmtree(FOLDER, ignore_errors=True)
    try:
        played, failures = soak(duration, PARTS, play=make, folder=FOLDER)
    except KeyboardInterrupt:
        return 130
    print("\n" + ", ".join(f"{name} {times} times" for name, times in played.items()))
    for failure in failures:
        print(f"failed: {failure.command}: see {failure.log}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
