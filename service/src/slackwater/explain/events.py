"""Formats explain's answer about a pending pod as the text of an Event: why the pod waits, and the first remedies."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from slackwater_protocol.units import Bytes, MilliCpu, quantity_text_cpu, quantity_text_memory

_MOST_REASONS: Final = 3
_MOST_REMEDIES: Final = 2
#: The API accepts 1024 bytes for the whole text. Reasons are cut to this length, so that the remedies fit after them.
_LONGEST_REASON: Final = 250


def note_of(answer: Mapping[str, Any]) -> str | None:
    """The text for the pod. None unless the answer's state is "pending": the pod may have been placed, for example, or wait for
    its scheduling gate."""
    if answer["state"] != "pending":
        return None
    reasons = list(map(_reason, answer["reasons"]))
    more = f"; and {len(reasons) - _MOST_REASONS} more reasons" if len(reasons) > _MOST_REASONS else ""
    helps = f"No change that was tried helps; see `slackwater explain pod {answer['object'].removeprefix('pod ')}`."
    if answer["remedies"]:
        helps = f"What would help: {'; or '.join(remedy['change'] for remedy in answer['remedies'][:_MOST_REMEDIES])}."
    return f"waits, because {'; '.join(reasons[:_MOST_REASONS])}{more}. {helps}"


def _reason(reason: Mapping[str, Any]) -> str:
    nodes = reason["nodes"]
    where = f" on {nodes} node{'s' if nodes > 1 else ''}" if nodes else ""
    detail = f" ({reason['detail']})" if reason.get("detail") else ""
    short = ", ".join(amounts(reason))
    lacking = f", {short} short{' on ' + reason['closest'] if reason.get('closest') else ''}" if short else ""
    text = f"{reason['text']}{detail}{where}{lacking}"
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 4] + " ..."


def amounts(reason: Mapping[str, Any]) -> Iterator[str]:
    """How much is lacking, as texts like "500m cpu"."""
    for unit, amount in reason["short"].items():
        yield f"{quantity_in(unit, amount)} {reason['resource'] or unit}"


def quantity_in(unit: str, amount: int) -> str:
    """The amount as a Kubernetes quantity, such as 500m or 4Gi. `unit`: "milliCPU", "bytes", or any other for a count."""
    match unit:
        case "milliCPU":
            return quantity_text_cpu(MilliCpu(amount))
        case "bytes":
            return quantity_text_memory(Bytes(amount))
        case _:
            return str(amount)
