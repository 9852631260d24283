"""A property of the nodes of all rows as small integers: a label's value, a set of taints, a set of features.

A predicate is evaluated once for each value, and each row looks up the answer for its value. Values that no row has any more
are forgotten from time to time: clusters that grow and shrink keep adding host names, and taints with times in them.
"""

from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from slackwater.model.columns import Int64, Mask
from slackwater.model.selectors import whole_number

T = TypeVar("T")
Int32 = npt.NDArray[np.int32]

#: The number of a row that has no value.
ABSENT: Final = -1
#: How many values are kept in addition to two for each row.
_SPARE: Final = 64


def grown(array: npt.NDArray[np.generic], capacity: int, fill: int = 0) -> npt.NDArray[np.generic]:
    """The array with its last axis made `capacity` long."""
    new = np.full((*array.shape[:-1], capacity), fill, array.dtype)
    new[..., : array.shape[-1]] = array
    return new


class ValueColumn(Generic[T]):
    """A column of values: `ids[row]` is the number of the row's value, ABSENT if the row has none; `values[number]` is the
    value.

    `put`, `cut` and `tidy` may renumber values, in new arrays: a caller that keeps numbers must keep the arrays too.
    """

    __slots__ = ("_number_of", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Int32 = np.full(capacity, ABSENT, np.int32)
        self.values: list[T] = []
        self._number_of: dict[T, int] = {}

    def number(self, value: T) -> int:
        """The number of a value; a new value gets the next one."""
        found = self._number_of.get(value)
        if found is None:
            found = self._number_of[value] = len(self.values)
            self.values.append(value)
        return found

    def known(self, value: T) -> int:
        """The number of a value; ABSENT if the column does not have the value."""
        return self._number_of.get(value, ABSENT)

    def put(self, row: int, value: T | None) -> None:
        self.write(row, value)
        self.tidy()

    def write(self, row: int, value: T | None) -> None:
        """Sets the value of a row as `put` does, but never renumbers."""
        self.ids[row] = ABSENT if value is None else self.number(value)

    def cut(self, n_rows: int) -> None:
        """Removes the values of rows from `n_rows` on."""
        self.ids[n_rows:] = ABSENT
        self.tidy()

    def grow(self, capacity: int) -> None:
        self.ids = grown(self.ids, capacity, ABSENT).astype(np.int32, copy=False)

    def tidy(self) -> None:
        """Forgets the values that no row has, once there are many."""
        if len(self.values) <= 2 * len(self.ids) + _SPARE:
            return
        present = self.ids != ABSENT
        used, renumbered = np.unique(self.ids[present], return_inverse=True)
        self.ids = np.full(len(self.ids), ABSENT, np.int32)
        self.ids[present] = renumbered
        self.values = [self.values[number] for number in used.tolist()]
        self._number_of = {value: number for number, value in enumerate(self.values)}


class LabelColumn(ValueColumn[str]):
    """The values of one label key."""

    __slots__ = ("_numbers",)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._numbers: tuple[list[str], int, Int64, Mask] | None = None

    def as_numbers(self) -> tuple[Int64, Mask]:
        """The values as whole numbers for the operators Gt and Lt, and which of the values are whole numbers. Both of shape
        (len(values),)."""
        kept = self._numbers
        if kept is None or kept[0] is not self.values or kept[1] != len(self.values):
            read = [whole_number(value) for value in self.values]
            numbers = np.array([0 if n is None else n for n in read], np.int64)
            kept = self._numbers = (self.values, len(read), numbers, np.array([n is not None for n in read], np.bool_))
        return kept[2], kept[3]
