"""What a `/metrics` page says, as values that a test can ask for."""

from collections.abc import Mapping
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_Labels = frozenset[tuple[str, str]]


class Samples:
    """The samples of one scrape."""

    def __init__(self, samples: Mapping[tuple[str, _Labels], float]) -> None:
        self._samples = samples

    @classmethod
    def parse(cls, text: str) -> Self:
        families = text_string_to_metric_families(text)
        return cls({(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples})

    def value(self, name: str, **labels: str) -> int:
        """The sample with exactly these labels; 0 where there is none. Only for counts, which are integers."""
        return int(self._samples.get((name, frozenset(labels.items())), 0))

    def number(self, name: str, **labels: str) -> float:
        """The same for what is no count."""
        return self._samples.get((name, frozenset(labels.items())), 0.0)

    def total(self, name: str) -> int:
        """The sum over all labels; AssertionError where there is no such metric, as then a zero says nothing."""
        found = [value for (sample, _), value in self._samples.items() if sample == name]
        assert found, f"no metric {name}"
        return int(sum(found))

    def by(self, name: str, label: str, **where: str) -> dict[str, int]:
        """Of one metric, the samples other than 0 by the value of a label, of those that have the labels `where`."""
        found = {labels: value for (sample, labels), value in self._samples.items() if sample == name and value}
        return {dict(labels)[label]: int(value) for labels, value in found.items() if where.items() <= labels}
