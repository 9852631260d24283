"""Decodes what decides whether a pod may leave its node: its controller, annotations and local volumes.

Each event source has its own reader. Replicas have equal facts, so each distinct set of texts is decoded once and shared.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

from slackwater.adapters.kube.structs import AnnotationsWire, MetaWire, PodWire
from slackwater.model.eviction_facts import NO_EVICTION_FACTS, EvictionFacts, Owner, SafeToEvict
from slackwater.model.ids import UnixTime
from slackwater.model.selectors import whole_number
from slackwater_protocol.durations import DurationError, parse_duration, seconds

#: How many texts of times are cached: many pods share the latest few, and none needs the old ones.
_TIMES: Final = 4_096
#: The API's default of `terminationGracePeriodSeconds`.
DEFAULT_GRACE_SECONDS: Final = 30
_SAFE_TO_EVICT: Final[dict[str, SafeToEvict]] = {"true": "true", "false": "false", "on-completion": "on-completion"}
_UNKNOWN_YEAR: Final = re.compile(r"(0000|-\d+|(?P<late>\d{5,}))-\d\d-\d\dT")
#: The config source of a pod that came through the API server; any other source means a kubelet's static pod.
_FROM_API: Final = "api"


@dataclass(slots=True)
class EvictionFactsReader:
    """Decodes eviction facts from the wire form of a pod; equal facts share one instance, as long as a pod has it."""

    _kept: WeakValueDictionary[tuple[object, ...], EvictionFacts] = field(default_factory=WeakValueDictionary)

    def read(self, wire: PodWire) -> EvictionFacts:
        meta = wire.metadata
        local = tuple(volume.name for volume in wire.spec.volumes or () if volume.is_local())
        if meta.annotations is None and not meta.owner_references and not local:
            return NO_EVICTION_FACTS
        owner, texts = _owner_texts(meta) or (), _texts(meta.annotations)
        key = (owner, texts, local)
        found = self._kept.get(key)
        if found is None:
            self._kept[key] = found = _eviction_facts(meta, local)
        return found


def overdue_at(wire: PodWire) -> UnixTime | None:
    """When a pod that is being deleted should have ended; None for other pods. Raises ValueError for an invalid time."""
    deletion = wire.metadata.deletion_timestamp
    if deletion is None:
        return None
    grace = wire.spec.termination_grace_period_seconds
    return UnixTime(instant_of("metadata.deletionTimestamp", deletion) + (DEFAULT_GRACE_SECONDS if grace is None else grace))


def instant_of(field: str, text: str) -> UnixTime:
    """Parses a time as the API writes it. Raises ValueError, which names the field, for an invalid text."""
    return UnixTime(_time(field, _of_known_year(text)).timestamp())


@lru_cache(maxsize=_TIMES)
def time_text(field: str, text: str | None) -> str:
    """The text of a time in UTC; pods with the same time share one instance. Empty if there is no time.

    Raises ValueError, which names the field, for an invalid text, so that later code can rely on a valid one.
    """
    if not text:
        return ""
    text = _of_known_year(text)
    at = _time(field, text)
    return text if text.endswith("Z") else at.isoformat().replace("+00:00", "Z")


def _of_known_year(text: str) -> str:
    """The text; for a year that the API server writes and Python does not know, the first or the last time that it knows."""
    found = _UNKNOWN_YEAR.match(text)
    return text if found is None else "9999-12-31T23:59:59Z" if found["late"] else "0001-01-01T00:00:00Z"


def _time(field: str, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)  # only files that people write lack the zone
    except (ValueError, OverflowError) as err:
        raise ValueError(f"{field}: got {text!r:.60}, want a time like 2026-01-31T00:00:00Z") from err


def controller_of(meta: MetaWire) -> Owner | None:
    """The object's controlling owner, or None."""
    texts = _owner_texts(meta)
    return None if texts is None else Owner(_group(texts[0]), texts[1], texts[2])


def _owner_texts(meta: MetaWire) -> tuple[str, str, str] | None:
    for owner in meta.owner_references or ():
        if owner.controller:
            return owner.api_version, owner.kind, owner.name
    return None


def _texts(annotations: AnnotationsWire | None) -> tuple[str | None, ...]:
    if annotations is None:
        return ()
    return (
        annotations.safe_to_evict,
        annotations.safe_local_volumes,
        annotations.daemon_set_pod,
        annotations.mirror_pod,
        annotations.config_source,
        annotations.cost,
        annotations.slack,
        annotations.do_not_disrupt,
    )


def _eviction_facts(meta: MetaWire, local: tuple[str, ...]) -> EvictionFacts:
    annotations = meta.annotations or AnnotationsWire()
    given_free = {name.strip() for name in (annotations.safe_local_volumes or "").split(",")}
    return EvictionFacts(
        owner=controller_of(meta),
        mirror_pod=annotations.mirror_pod is not None or annotations.config_source not in (None, _FROM_API),
        daemon=annotations.daemon_set_pod == "true",
        safe_to_evict=_SAFE_TO_EVICT.get(annotations.safe_to_evict or ""),
        local_volumes=tuple(name for name in local if name not in given_free),
        deletion_cost=_whole(annotations.cost),
        slack=(annotations.slack or "").strip(),
        do_not_disrupt=_protected_seconds(annotations.do_not_disrupt),
    )


def _protected_seconds(text: str | None) -> float:
    """For how long after its start the pod may not be disrupted. As in Karpenter, a text that is neither "true" nor a positive
    duration protects nothing."""
    if text == "true":
        return math.inf
    try:
        return 0.0 if text is None else max(seconds(parse_duration(text)), 0.0)
    except DurationError:
        return 0.0


def _whole(text: str | None) -> int:
    """The pod's deletion cost; 0 if the text is no int32, since the API server and controllers do not accept such a text."""
    number = whole_number(text)
    return number if number is not None and -(2**31) <= number < 2**31 else 0


def _group(api_version: str) -> str:
    """The group of `group/version`; empty for the core API's `v1`."""
    group, slash, _ = api_version.partition("/")
    return group if slash else ""
