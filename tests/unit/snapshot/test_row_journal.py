"""What a journal of rows forgets, and what it tells a reader."""

import numpy as np
import pytest

from slackwater.snapshot.row_journal import RowJournal


@pytest.mark.parametrize("together", [1, 5], ids=["one by one", "several"])
@pytest.mark.parametrize("n_rows", [10, 3_000])
def test_it_keeps_the_latest_changes_of_as_many_rows_as_there_are(n_rows: int, together: int) -> None:
    """A snapshot lives for months."""
    journal = RowJournal()
    changes = [number * 7 % n_rows for number in range(20 * n_rows + 10_000)]
    for at in range(0, len(changes), together):
        if together == 1:
            journal.note(changes[at])
        else:
            journal.note_all(np.array(changes[at : at + together]))
        assert len(journal._rows) <= 2 * max(n_rows, 1_024)
    assert journal.position == len(changes)
    for behind in (0, 1, n_rows // 2, n_rows):
        found = journal.since(journal.position - behind, at_most=n_rows)
        assert found is not None
        assert found.tolist() == sorted(set(changes[len(changes) - behind :]))
    assert journal.since(journal.position - n_rows - 1, at_most=n_rows) is None
    assert journal.since(0, at_most=len(changes)) is None


def test_more_rows_than_it_keeps_are_all_rows() -> None:
    journal = RowJournal()
    journal.note_all(np.arange(100_000))
    assert journal.since(0, at_most=100_000) is None
    assert journal.position == 100_000
    journal.note(99_999)
    found = journal.since(100_000, at_most=100_000)
    assert found is not None
    assert found.tolist() == [99_999]
