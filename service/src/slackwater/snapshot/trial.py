"""A trial on a snapshot: changes that are kept or undone together."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from slackwater.snapshot.cluster_snapshot import ClusterSnapshot


class Trial:
    """A trial on a snapshot. Used as a context manager, it undoes its changes at the end, unless it was committed or dropped
    before."""

    __slots__ = ("_depth", "_ended", "_snapshot")

    def __init__(self, snapshot: "ClusterSnapshot", depth: int) -> None:
        self._snapshot = snapshot
        self._depth = depth
        self._ended = False

    def commit(self) -> None:
        """Keeps the changes, as part of the surrounding trial if there is one."""
        self._end(commit=True)

    def drop(self) -> None:
        """Undoes the changes."""
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        self._snapshot.end(self._depth, commit=commit)
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        if not self._ended:
            self.drop()
