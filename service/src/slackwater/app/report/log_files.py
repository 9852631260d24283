"""Opens the files of a log: the one that is written, and the older ones with a number behind its name, of which the highest is
the oldest. Reading takes the room of one line, however long the log is.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from slackwater.app.counterfactual.lines import AnyLine, BadLog, read

#: A longer line is none of a log.
LONGEST_LINE: Final = 1 << 20
_TAIL: Final = 1 << 16
_SHOWN: Final = 80


class LogFiles:
    """A log in files, the oldest first, each with its name for messages. `skipped`: what could not be read the last time: how
    many lines, and the first."""

    def __init__(self, files: Sequence[tuple[str, BinaryIO]]) -> None:
        self._files = files
        self.skipped = (0, "")

    def last(self) -> float | None:
        """The time of the last line; None if there is no line."""
        return next((at for _, file in reversed(self._files) if (at := _last_of(file)) is not None), None)

    def seen(self) -> str:
        """What is there in place of a log, for people."""
        sizes = [file.seek(0, 2) for _, file in self._files]
        return "got no line of a log in it" if any(sizes) else "got an empty file"

    def lines(self, since: float) -> Iterator[AnyLine]:
        """The lines from `since` on, and those that they rest on. They can be read more than once."""
        self.skipped = (0, "")
        for name, file in self._files:
            file.seek(0)

            def note(bad: BadLog, name: str = name) -> None:
                count, first = self.skipped
                self.skipped = (count + 1, first or f"{name}: {bad}")

            yield from read(_texts(file), since=since, skipped=note)


@contextmanager
def log_files(path: str) -> Iterator[LogFiles]:
    """Opens the file at `path` and the older ones beside it. Raises OSError if it cannot be read."""
    file = Path(path)
    older = [(int(number), each) for each in file.parent.glob(f"{file.name}.*") if (number := each.suffix[1:]).isdecimal()]
    with ExitStack() as opened:
        paths = [*(each for _, each in sorted(older, reverse=True)), file]
        yield LogFiles([(str(each), opened.enter_context(each.open("rb"))) for each in paths])


def _texts(file: BinaryIO) -> Iterator[bytes]:
    while text := file.readline(LONGEST_LINE):
        if len(text) == LONGEST_LINE and not text.endswith(b"\n"):
            begin = text[:_SHOWN]
            while text and not text.endswith(b"\n"):
                text = file.readline(LONGEST_LINE)
            text = begin + b"\n"
        yield text


class _At(msgspec.Struct):
    at: float


def _last_of(file: BinaryIO) -> float | None:
    size, length = file.seek(0, 2), _TAIL
    while True:
        file.seek(max(size - length, 0))
        texts = file.read(length).split(b"\n")[1 if length < size else 0 : -1]
        for text in reversed(texts):
            try:
                return msgspec.json.decode(text, type=_At).at
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        if length >= size or length > LONGEST_LINE:
            return None
        length *= 4
