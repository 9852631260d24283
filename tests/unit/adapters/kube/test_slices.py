"""How objects are split into slices for the event loop, and how many are asked for at once."""

from slackwater.adapters.kube.slices import LARGE_BYTES, PageSize, slices


def test_slices_are_bounded_by_number_and_bytes_and_a_large_object_is_alone() -> None:
    small, medium, large = b"s" * 100, b"m" * 60_000, b"l" * (LARGE_BYTES + 1)
    items = [*[small] * 70, *[medium] * 9, small, large, small, large, large]
    found = list(slices(items))
    assert [item for some in found for item in some] == items
    assert [len(some) for some in found] == [64, 10, 4, 2, 1, 1, 1, 1]
    assert list(slices([])) == []


def test_pages_become_smaller_while_objects_are_large_and_larger_again() -> None:
    size = PageSize(500)
    size.was_too_large()
    size.was_too_large()
    assert str(size) == "7"
    size.was_too_large()
    assert str(size) == "1"
    assert size.most_bytes is None, "a single object may have any size"
    sizes = []
    for _ in range(10):
        size.had(1_000)
        sizes.append(int(str(size)))
    assert sizes == [2, 4, 8, 16, 32, 64, 128, 256, 500, 500]
    size.had(10**7)
    assert str(size) == "500"
