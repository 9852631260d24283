"""What the command line asks of every bench."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: A deadline that only stops a bench which hangs: on a machine that is busy with other work everything takes ten times as long.
PATIENCE_SECONDS: Final = 600.0

#: Takes a line that says what is going on.
WriteFrame = Callable[[str], None]


class BenchFailed(Exception):
    """A run did not do what it is timed for; the message says what was seen and what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCommand:
    """A way to start the service: `arguments` come after the program and before `serve`. `name` is its name in the table."""

    name: str
    program: Path
    arguments: tuple[str, ...] = ()


def installed_service() -> ServiceCommand:
    """The service of this environment."""
    return ServiceCommand(name="slackwater", program=Path(sys.executable).parent / "slackwater")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`rounds`, `nodes` and `pods` are None where the bench's own sizes hold. `services` has at least one."""

    quick: bool = False
    rounds: int | None = None
    nodes: int | None = None
    pods: int | None = None
    services: tuple[ServiceCommand, ...]
