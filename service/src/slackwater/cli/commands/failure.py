"""Defines the exit codes of commands, and the error by which a command fails."""

from collections.abc import Sequence
from typing import Final

#: The command ran, and the result is negative: problems in a file, a service that does not answer.
ANSWERED_NO: Final = 1
#: The command could not run: its arguments or files are wrong.
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def messages(group: BaseExceptionGroup[Exception]) -> list[str]:
    """The messages of all errors in a group, as a task group raises it, and in the groups within it."""
    return [
        line
        for error in group.exceptions
        for line in (messages(error) if isinstance(error, BaseExceptionGroup) else [str(error)])
    ]


class CommandFailed(Exception):
    """Ends a command with exit code `code`. Each of `lines` is printed to stderr as `slackwater: ...`."""

    def __init__(self, lines: Sequence[str], *, code: int = BAD_INPUT) -> None:
        super().__init__(lines, code)
        self.lines = tuple(lines)
        self.code = code
