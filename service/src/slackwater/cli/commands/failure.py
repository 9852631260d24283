"""How a command ends when it cannot do what it was asked."""

from collections.abc import Sequence
from typing import Final

#: What was asked for was done, and the answer is no: problems in a file, a service that does not answer.
ANSWERED_NO: Final = 1
#: The command could not be carried out as it was given.
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def messages(group: BaseExceptionGroup[Exception]) -> list[str]:
    """What each error of a group says: task groups wrap what their tasks raise."""
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
