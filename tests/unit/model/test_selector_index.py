"""An index of selectors finds what asking every selector would find, and asks few."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.selectors import Requirement, Selector, SelectorIndex, selects

KEYS = st.sampled_from(("app", "tier", "shard"))
VALUES = st.sampled_from(("a", "b", "1"))
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.builds(
    Requirement,
    KEYS,
    st.sampled_from(("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    st.lists(VALUES, max_size=3).map(tuple),
)
SELECTORS: st.SearchStrategy[Selector] = st.one_of(st.none(), st.lists(REQUIREMENTS, max_size=3).map(tuple))
#: Numbers of things, and their selectors; "gone": the thing is dropped.
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.one_of(SELECTORS, st.just("gone"))), max_size=12)


@given(CHANGES, st.lists(LABELS, min_size=1, max_size=4))
def test_the_index_finds_what_asking_every_selector_finds(
    changes: list[tuple[int, Selector | str]], asked: list[dict[str, str]]
) -> None:
    index, known = SelectorIndex[int](), dict[int, Selector]()
    for number, selector in changes:
        if isinstance(selector, str):
            index.drop(number)
            known.pop(number, None)
        else:
            index.put(number, selector)
            known[number] = selector
    for labels in asked:
        want = sorted(number for number, selector in known.items() if selects(selector, labels))
        assert sorted(index.selecting(labels)) == want


def test_a_label_that_all_ask_for_does_not_lump_them_together() -> None:
    index = SelectorIndex[int]()
    for number in range(100):
        index.put(number, (Requirement("app", "In", ("web",)), Requirement("shard", "In", (str(number),))))
    labels = CountingLabels({"app": "web", "shard": "7"})
    assert list(index.selecting(labels)) == [7]
    assert labels.read <= 10


class CountingLabels(dict[str, str]):
    """Counts how often a selector reads a label."""

    read = 0

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.read += 1
        return super().get(key, default)
