"""The list of slow tests: what makes a test slow, and that the list names tests that exist."""

import re

from tests.stages.record import Record
from tests.stages.slow import LIST, SECONDS, slow_ones


def test_one_slow_case_makes_a_test_slow() -> None:
    records = [
        Record(test="tests/a.py::test_one[x]", seconds=SECONDS / 2),
        Record(test="tests/a.py::test_one[y]", seconds=2 * SECONDS),
        Record(test="tests/a.py::test_two", seconds=SECONDS / 2),
    ]
    assert slow_ones(records) == ["tests/a.py::test_one"]


def test_the_list_names_tests_that_exist() -> None:
    listed = LIST.read_text().splitlines()
    assert listed == sorted(set(listed))
    root = LIST.parents[1]
    for test in listed:
        file, *_, function = test.split("::")
        source = (root / file).read_text()
        assert re.search(rf"def {function}\b|^{function} = ", source, re.M) or function == "runTest", test
