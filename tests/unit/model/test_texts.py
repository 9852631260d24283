"""Texts for people: counts with their nouns, lists that are cut short, remarks on added pods."""

import pytest

from slackwater.model.texts import added_pods_text, count_text, first_few, summed_up


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


def test_a_table_sums_up_remarks_on_the_added_pods_of_many_controllers() -> None:
    added = [added_pods_text(f"Deployment shop/d{at}", at, "shop/a to b") for at in range(1, 5)]
    refused = "Deployment shop/e: 2 of its pods that are not in the file would not be admitted: quota"
    assert summed_up([*added[:3], refused]) == [*added[:3], refused]
    first = "4 controllers: 10 of their pods are not in the file, and are added; -o json names them"
    assert summed_up(["judged", *added[:2], refused, *added[2:]]) == ["judged", first, refused]
