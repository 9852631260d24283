"""The Go program that runs kube-scheduler's plug-ins: its sources, and where it is built."""

from pathlib import Path
from typing import Final

from tests.support import goprogram

SOURCES: Final = Path(__file__).parent / "go"


def build() -> Path:
    """Path of the program, made now unless it is in the cache; errors as of `goprogram.build`."""
    return goprogram.build("oracle", SOURCES)
