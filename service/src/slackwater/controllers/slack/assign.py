"""Assigns placeholders: those of the previous loop stay, with their names and places, as far as they are wanted.

If a source wants fewer, placeholders without a place go first, then those with the highest numbers. If it wants more, they get
the lowest free numbers. A placeholder whose size changes keeps its name, and its place if it still fits there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from slackwater.controllers.slack.state import Placeholder
from slackwater.model.equivalence import Kind
from slackwater.model.objects import Labels
from slackwater.model.placeholders import a_placeholder


@dataclass(frozen=True, slots=True)
class Shape:
    """What one placeholder requests."""

    kind: Kind
    labels: Labels = ()


def assigned(wanted: Mapping[str, Sequence[Shape]], before: Iterable[Placeholder]) -> list[Placeholder]:
    """The placeholders of all sources, in the order of their numbers."""
    known: dict[str, list[Placeholder]] = {source: [] for source in wanted}
    for placeholder in before:
        if placeholder.source in known:
            known[placeholder.source].append(placeholder)
    kept = {source: _kept(some, len(wanted[source])) for source, some in known.items()}
    free = _free({each.number for some in kept.values() for each in some})
    found: list[Placeholder] = []
    for source, shapes in wanted.items():
        old = kept[source]
        found += [_shaped(each, shape) for each, shape in zip(old, shapes, strict=False)]
        for shape in shapes[len(old) :]:
            number = next(free)
            found.append(Placeholder(number=number, source=source, pod=a_placeholder(number, shape.kind, shape.labels)))
    return sorted(found, key=lambda each: each.number)


def _kept(some: list[Placeholder], most: int) -> list[Placeholder]:
    if len(some) > most:
        some = sorted(some, key=lambda each: (each.place is None, each.number))[:most]
    return sorted(some, key=lambda each: each.number)


def _shaped(known: Placeholder, shape: Shape) -> Placeholder:
    pod = known.pod
    if pod.labels == shape.labels and (pod.kind is shape.kind or pod.kind == shape.kind):
        return known
    return replace(known, pod=a_placeholder(known.number, shape.kind, shape.labels))


def _free(taken: set[int]) -> Iterator[int]:
    return (number for number in count() if number not in taken)
