"""The file with the log of both sides. It is bounded: when it is half as large as allowed, it becomes `FILE.1`, whose former
content goes, and a new one begins. Only its owner can read it, since it names nodes and pods."""

import os
from pathlib import Path


class LogFile:
    """Appends to the file. `max_bytes`: of both files together. Raises OSError."""

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path, self._most = path, max_bytes // 2
        torn = _is_torn(path)
        self._file = self._opened()
        if torn:
            os.write(self._file, b"\n")

    def append(self, content: bytes) -> bool:
        """Returns whether a new file begins."""
        view = memoryview(content)
        while view:
            view = view[os.write(self._file, view) :]
        if os.fstat(self._file).st_size <= self._most:
            return False
        os.close(self._file)
        Path(self._path).replace(f"{self._path}.1")
        self._file = self._opened()
        return True

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _is_torn(path: str) -> bool:
    """True if a writer that was killed left a part of a line."""
    try:
        with Path(path).open("rb") as file:
            return bool(file.seek(0, os.SEEK_END)) and (file.seek(-1, os.SEEK_END), file.read())[1] != b"\n"
    except FileNotFoundError:
        return False
