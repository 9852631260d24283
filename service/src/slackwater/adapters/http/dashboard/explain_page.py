"""Renders an explanation as an HTML page: one sentence first, then what would help, then the reasons, with equal ones merged.

    html = why_page(explanation, path)      # `explanation` is the JSON that /explain/... answers

The dashboard fetches this page and shows its element `#explanation`. So there is one rendering, which works without JavaScript.
Every text that comes from the cluster is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

import msgspec

from slackwater.adapters.http.dashboard.routes import PAGE_HEADERS, notices_html
from slackwater.model.texts import count_text

HEADERS: Final = {**PAGE_HEADERS, "vary": "accept"}
Json = Mapping[str, Any]
#: The labels of some facts. Other facts are labelled with their own names, split into words.
_FACTS: Final = {"schedulerName": "Scheduler", "schedulerSays": "The scheduler last said", "milliCPU": "CPU", "bytes": "memory"}
#: The units of a node's amounts.
_LEDGER: Final = {"cpu": "milliCPU", "memory": "bytes"}
#: A reason's text that says nothing by itself; the reason's detail is shown instead.
_GENERAL: Final = "Insufficient resources"
_LINKED: Final = {"pod": "pod", "node": "node", "group": "group"}


def prefers_html(accept: str) -> bool:
    """True if the Accept header names text/html, as a browser's does. `*/*` (curl, our command line) means JSON."""
    return "text/html" in accept


def why_page(explanation: bytes, path: str, notices: Sequence[str] = ()) -> str:
    found = msgspec.json.decode(explanation)
    title = escape(f"Why: {found['object']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Slackwater</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/dashboard/look.css">'
        '<link rel="stylesheet" href="/dashboard/bars.css"><link rel="stylesheet" href="/dashboard/views.css">'
        f'</head><body><main class="page"><p><a href="/">Slackwater</a></p>{notices_html(notices)}'
        f"<h1>{escape(found['object'])}</h1>"
        f"{fragment(found, path, notices)}{_history(found.get('history', ()))}</main></body></html>"
    )


def _history(entries: Iterable[Json]) -> str:
    """Renders the newest entries of the persisted history. The dashboard itself asks for the whole history."""
    rows = [f"<li><time>{escape(each['at'])}</time> {escape(each['text'])} (by {escape(each['by'])})</li>" for each in entries]
    return f'<h2>What happened last</h2><ol class="story">{"".join(rows)}</ol>' if rows else ""


def fragment(found: Json, path: str, above: Sequence[str] = ()) -> str:
    """Renders the explanation as one HTML element, without a page around it. `path` is the explanation's URL path, `above` what
    is said above it already."""
    minimal = "".join(_minimal(each) for each in found["minimal"])
    json_link = f'<p class="dim"><a href="{escape(path)}?format=json">The same as JSON</a></p>'
    sections = (
        _reasons(found["reasons"], counted=_counts_nodes(found)) + minimal,
        _moves(found["facts"].get("moves")),
        _instead(found.get("instead"), found["facts"].get("node")),
        _groups(found.get("groups", ())),
        _facts(found["facts"]) + json_link,
    )
    parts = _remedies(found) + "".join(f"<section>{section}</section>" for section in sections if section)
    head = f'<p class="sentence">{escape(sentence(found))}</p>{_notes(found, above)}'
    return f'<div id="explanation">{head}<div class="parts">{parts}</div></div>'


def sentence(found: Json) -> str:
    """The explanation in one sentence: the object's state, and the reason that holds on most nodes."""
    reasons = merged(found["reasons"])
    what = str(found["object"])
    start = f"{what[:1].upper()}{what[1:]} is {found['state']}"
    if not reasons:
        return f"{start}."
    first = reasons[0]
    where = f" on {count_text(first['nodes'], 'node')}" if first["nodes"] and _counts_nodes(found) else ""
    others = len(reasons) - 1
    more = f", and {others} other reason{'s' if others > 1 else ''}" if others else ""
    return f"{start}: {_plain(first)}{where}{more}."


def merged(reasons: Iterable[Json]) -> list[dict[str, Any]]:
    """Merges reasons with the same code, text, detail and shortage; returns the reasons with the most nodes first."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for reason in reasons:
        key = (reason["code"], reason["text"], reason.get("detail", ""), tuple(sorted(reason["short"].items())))
        if key in found:
            found[key]["nodes"] += reason["nodes"]
            found[key]["objects"] = [*dict.fromkeys([*found[key]["objects"], *reason["objects"]])]
        else:
            found[key] = {**reason, "objects": list(reason["objects"])}
    return sorted(found.values(), key=lambda reason: -int(reason["nodes"]))


def _counts_nodes(found: Json) -> bool:
    """True if each reason counts the nodes on which it holds: the reasons of a pod. Other objects' reasons count no nodes."""
    return str(found["object"]).startswith("pod ")


def _plain(reason: Json) -> str:
    if reason["text"] == _GENERAL and reason.get("detail"):
        return str(reason["detail"])
    return str(reason["text"]).removeprefix("Slackwater: ").removeprefix("node(s) ")


def _notes(found: Json, above: Sequence[str]) -> str:
    notes = (note for note in (*found.get("remarks", ()), *found.get("notes", ())) if note not in above)
    return "".join(f'<p class="notes">{escape(note)}</p>' for note in notes)


def _remedies(found: Json) -> str:
    if not found["remedies"]:
        return ""
    items = "".join(f"<li>{escape(remedy['change'])}</li>" for remedy in found["remedies"])
    head = '<h2>What would help</h2><p class="dim">Each was tried in a simulation.</p>'
    return f'<section class="help">{head}<ul>{items}</ul></section>'


def _reasons(reasons: Iterable[Json], *, counted: bool) -> str:
    items = "".join(_reason(reason, counted=counted) for reason in merged(reasons))
    return f'<h2>Reasons</h2><ul class="reasons">{items}</ul>' if items else ""


def _reason(reason: Json, *, counted: bool = False) -> str:
    detail = reason.get("detail", "")
    more = ["" if detail == _plain(reason) else detail]
    more += [f"{amount(unit, value)} short at the closest" for unit, value in reason["short"].items()]
    if reason.get("closest"):
        more.append(f"closest: {reason['closest']}")
    details = f' <span class="dim">({escape("; ".join(filter(None, more)))})</span>' if any(more) else ""
    nodes = f"<strong>{count_text(reason['nodes'], 'node')}</strong>: " if reason["nodes"] and counted else ""
    objects = ", ".join(_object(each) for each in reason["objects"])
    names = f'<br><span class="dim">{objects}</span>' if objects else ""
    return f"<li>{nodes}{escape(_plain(reason))}{details} <code>{escape(reason['code'])}</code>{names}</li>"


def _object(text: str) -> str:
    kind, _, name = text.partition(" ")
    return f"{escape(kind)} {_linked(kind, name)}" if kind in _LINKED else escape(text)


def _linked(kind: str, name: str) -> str:
    return f'<a href="/#/why/{escape(kind)}/{escape(name)}">{escape(name)}</a>'


def _minimal(found: Json) -> str:
    items = "".join(_reason(blocker) for blocker in found["blockers"])
    helps = escape(found["remedy"]["change"])
    return f"<details><summary>In the way at {escape(found['where'])}</summary><ul>{items}</ul><p>Helps: {helps}</p></details>"


def _moves(moves: Sequence[Mapping[str, str]] | None) -> str:
    """Renders where a node's pods would move if the node were removed; empty if it cannot be removed."""
    if moves is None:
        return ""
    if not moves:
        return "<h2>Removing it</h2><p>would move no pod: the node is empty.</p>"
    rows = "".join(
        f'<tr><th scope="row">{_linked("pod", move["pod"])}</th><td>to {_linked("node", move["node"])}</td></tr>'
        for move in moves
    )
    return f"<h2>Removing it</h2><p>would move {count_text(len(moves), 'pod')}:</p><table><tbody>{rows}</tbody></table>"


def _instead(instead: Json | None, node: str | None) -> str:
    """Renders the other nodes that would take a placed pod now, and why the rest would not."""
    if instead is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{_linked("node", each["node"])}</th>'
        f'<td class="number" data-label="Score">{each["score"]:,}</td>'
        f'<td data-label="Compared">{escape(_difference(each["difference"]))}</td></tr>'
        for each in instead["nodes"]
    )
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Node", "Score", "Compared"))
    table = f'<table class="free"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>' if rows else ""
    best = f", the best {len(instead['nodes'])}:" if instead["feasible"] > len(instead["nodes"]) else ":" if rows else "."
    takes = f"{count_text(instead['feasible'], 'other node')} would take the pod{best}"
    items = "".join(_reason(reason, counted=True) for reason in merged(instead["reasons"]))
    rest = f'<p>The others would not:</p><ul class="reasons">{items}</ul>' if items else ""
    own = f"As of now, not of the time when the pod was placed. {escape(node or 'Its node')} scores {instead['score']:,}."
    return f'<h2>What could be instead</h2><p class="dim">{own}</p><p>{takes}</p>{table}{rest}'


def _difference(difference: Mapping[str, int]) -> str:
    """Renders by how many points another node's score differs from the score of the pod's node, by plug-in, largest first."""
    ordered = sorted(difference.items(), key=lambda item: (-abs(item[1]), item[0]))
    return ", ".join(f"{name} {points:+,}" for name, points in ordered) or "equal"


def _groups(groups: Iterable[Json]) -> str:
    rows = []
    for group in groups:
        why = "a new node takes it" if group["helps"] else "; ".join(dict.fromkeys(map(_plain, merged(group["reasons"]))))
        link = f'<a href="/#/why/group/{escape(group["group"])}">{escape(group["group"])}</a>'
        rows.append(f'<tr><th scope="row">{link}</th><td>{escape(why)}</td></tr>')
    return f"<h2>Node groups</h2><table><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _facts(facts: Json) -> str:
    rows = [
        f"<dt>{escape(_words(name))}</dt><dd>{escape(text)}</dd>"
        for name, value in facts.items()
        if name != "moves" and (text := _value(name, value))
    ]
    return f'<details><summary>Figures</summary><dl class="figures">{"".join(rows)}</dl></details>' if rows else ""


def _words(name: str) -> str:
    if name in _FACTS:
        return _FACTS[name]
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return spaced[:1].upper() + spaced[1:]


def _value(name: str, value: Any) -> str:
    """Renders a fact's value for people; empty if there is nothing to show."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, Mapping):
        unit = _LEDGER.get(name)
        texts = ((key, _value(unit or key, each)) for key, each in value.items())
        return ", ".join(f"{text} {_words(key).lower()}" for key, text in texts if text)
    if isinstance(value, list):
        return "; ".join(text for each in value if (text := _value("", each)))
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name in {"milliCPU", "bytes"}:
        return " ".join(amount(name, value).split(" ")[: 1 if name == "milliCPU" else 2])
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 10 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def amount(unit: str, value: int) -> str:
    """An amount with its unit, for people."""
    if unit == "milliCPU":
        return f"{value / 1000:,.4g} CPU"
    if unit == "bytes":
        return f"{value / 2**30:,.4g} GiB memory" if value >= 2**30 else f"{value / 2**20:,.4g} MiB memory"
    if unit == "count":
        return f"{value:,}"
    return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}"
