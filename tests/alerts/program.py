"""promtool itself, built from Prometheus' Go module; without what discovers targets in clouds, which is two thirds of it."""

import subprocess
from pathlib import Path
from typing import Final

from tests.support import goprogram

SOURCES: Final = Path(__file__).parent / "go"
_TAGS: Final = ("remove_all_sd",)
_DEADLINE_SECONDS: Final = 120.0


def find() -> Path | None:
    """Path of promtool if it is in the cache."""
    return goprogram.find("promtool", SOURCES, tags=_TAGS)


def build() -> Path:
    """Path of promtool, made now unless it is in the cache; errors as of `goprogram.build`."""
    return goprogram.build("promtool", SOURCES, package="github.com/prometheus/prometheus/cmd/promtool", tags=_TAGS)


def ask(promtool: Path, *arguments: str) -> tuple[int, str]:
    """Its exit code, and all that it says."""
    done = subprocess.run(
        [promtool, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DEADLINE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout
