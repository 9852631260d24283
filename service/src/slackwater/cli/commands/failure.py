"""Exit codes of commands, and the error with which a command ends."""

from collections.abc import Sequence
from typing import Final

#: The command ran, and the result is negative: problems in a file, a service that does not answer.
ANSWERED_NO: Final = 1
#: The command could not run: its arguments or files are wrong.
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def messages(group: BaseExceptionGroup[Exception]) -> list[str]:
    """The messages of all errors in a group: task groups wrap the errors of their tasks."""
    return [
        line
        for error in group.exceptions
        for line in (messages(error) if isinstance(error, BaseExceptionGroup) else [str(error)])
    ]


class CommandFailed(Exception):
    """`lines` go to stderr, each as `slackwater: ...`; `code` is the exit code."""

    def __init__(self, lines: Sequence[str], *, code: int = BAD_INPUT) -> None:
        super().__init__(lines, code)
        self.lines = tuple(lines)
        self.code = code
