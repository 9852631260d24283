"""Texts for people: counts with their nouns, and lists that are cut short."""

import pytest

from slackwater.model.texts import count_text, first_few


@pytest.mark.parametrize(("count", "want"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (12_000, "12,000 nodes")])
def test_a_count_has_its_noun(count: int, want: str) -> None:
    assert count_text(count, "node") == want


@pytest.mark.parametrize(
    ("names", "total", "want"),
    [
        ([], None, ""),
        (["a", "b"], None, "a, b"),
        (["a", "b", "c"], None, "a, b and 1 more"),
        (["a"], 5, "a and 4 more"),
        (["a", "b", "c"], 7, "a, b and 5 more"),
    ],
)
def test_a_list_names_its_first_entries_and_counts_the_others(names: list[str], total: int | None, want: str) -> None:
    assert first_few(names, 2, total=total) == want


def test_a_list_may_have_another_separator() -> None:
    assert first_few(["a", "b", "c"], 2, separator="; ") == "a; b and 1 more"
