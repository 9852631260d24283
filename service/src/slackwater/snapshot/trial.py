"""A trial on a snapshot: changes that are kept or undone together."""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self


class Trial:
    """A trial on a snapshot. Used as a context manager, it undoes its changes at the end, unless it was committed or dropped
    before.

    The snapshot notes each change here (`undo_by`). `open_trials` are those of the snapshot, the innermost last. Invariant: a
    call that undoes a change notes nothing itself, since the trial around it, if there is one, does not know of that change.
    """

    __slots__ = ("_ended", "_open_trials", "_undo")

    def __init__(self, open_trials: "list[Trial]") -> None:
        self._undo: list[Callable[[], object]] = []
        self._open_trials = open_trials
        self._ended = False
        open_trials.append(self)

    def undo_by(self, undo: Callable[..., object], *args: Any, **named: Any) -> None:
        """Notes a change, by the call that undoes it."""
        self._undo.append(partial(undo, *args, **named))

    def commit(self) -> None:
        """Keeps the changes, as part of the surrounding trial if there is one."""
        self._end()
        if self._open_trials:
            self._open_trials[-1]._undo.extend(self._undo)

    def drop(self) -> None:
        """Undoes the changes."""
        self._end()
        for undo in reversed(self._undo):
            undo()

    def _end(self) -> None:
        if self._open_trials[-1:] != [self]:
            raise RuntimeError("a trial ends while one within it is open: want the innermost first")
        self._open_trials.pop()
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        if not self._ended:
            self.drop()
