// Decisions as lanes by kind with their density over the last hour, and the newest as stories; equal binds are collapsed.
import { el, setText, tag } from "./dom.js";
import { Sparkline } from "./spark.js";
import { clock, many, number } from "./units.js";
import { again, whyLink } from "./why.js";

const VERDICTS = { refused: "refused", again: "tried again", unknown: "no answer", withheld: "not done" };
const SHOWN = 150;
const TOGETHER_SECONDS = 600;

class TimelineView {
  id = "timeline";
  title = "Time line";
  about = "Decisions of the last hour by kind; the newest below";
  needs = ["timeline", "series"];
  lanes = new Map();

  build() {
    this.laneList = el("ul", { class: "lanes", "aria-label": "Decisions by kind, last hour" });
    this.search = el("input", { type: "search", placeholder: "part of a name or text", oninput: () => this.draw(this.state, this.rest) });
    this.shown = el("p", { class: "dim", role: "status" });
    this.list = el("ol", { class: "story" });
    return el("div", {}, this.laneList, el("div", { class: "tools", role: "search" }, el("label", {}, "Search", this.search), this.shown), this.list);
  }

  draw(state, rest = "", query = this.query ?? new URLSearchParams()) {
    Object.assign(this, { state, rest, query });
    const kind = query.get("kind") ?? "";
    this.drawLanes(state, kind);
    const text = this.search.value.trim().toLowerCase();
    const found = state.list("timeline").entries.filter((entry) => (!kind || entry.kind === kind) && (!text || `${entry.name} ${entry.text}`.toLowerCase().includes(text)));
    const rows = kind || text ? found.slice(0, SHOWN).map((entry) => [entry]) : collapsed(found).slice(0, SHOWN);
    setText(this.shown, `${many(found.length, "decision")} of the newest ${number(state.list("timeline").entries.length)}${kind ? `, kind ${kind}` : ""}`);
    redrawn(this.list, rows, []);
  }

  drawLanes(state, kind) {
    const points = state.sections.series?.hour.points ?? {};
    const kinds = Object.keys(points).filter((name) => name.startsWith("decisions.")).map((name) => name.slice(10));
    for (const name of kinds) {
      const values = points[`decisions.${name}`];
      const sum = values.reduce((before, value) => before + (value ?? 0), 0);
      if (!sum && !this.lanes.has(name)) continue;
      if (!this.lanes.has(name)) {
        const lane = { spark: new Sparkline(`${name}, last hour`), count: el("span", { class: "count" }) };
        lane.link = el("a", { class: "lane" }, el("span", {}, name), lane.spark.element, lane.count);
        this.lanes.set(name, lane);
        this.laneList.append(el("li", {}, lane.link));
      }
      const lane = this.lanes.get(name);
      lane.link.setAttribute("href", kind === name ? "#/timeline" : `#/timeline?kind=${encodeURIComponent(name)}`);
      if (kind === name) lane.link.setAttribute("aria-current", "true");
      else lane.link.removeAttribute("aria-current");
      setText(lane.count, number(sum));
      lane.spark.draw(values, { text: (value) => `${value} in 15 s` });
    }
  }
}

// Binds, waits and permits that follow one another are one row, those of DaemonSets' pods rows of their own; so are the
// evictions from one node within ten minutes, whatever comes between them.
export function collapsed(entries) {
  const rows = [];
  const evictions = new Map();
  for (const entry of entries) {
    const node = entry.kind === "evict" ? `${entry.verdict} ${entry.related[0] ?? ""}` : null;
    const before = node ? evictions.get(node) : rows.at(-1);
    if (before && (node ? before[0].at - entry.at < TOGETHER_SECONDS : alike(before[0], entry))) before.push(entry);
    else {
      rows.push([entry]);
      if (node) evictions.set(node, rows.at(-1));
    }
  }
  return rows;
}

const alike = (one, other) => one.kind === other.kind && ["bind", "wait", "permit"].includes(one.kind) && one.verdict === other.verdict && daemon(one) === daemon(other);
const daemon = (entry) => entry.related.some((about) => about.startsWith("daemonset "));

// Draws rows of `collapsed` into a list. What is open stays open, and the focus stays where it is.
export function redrawn(list, rows, otherwise) {
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const open = new Set([...list.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  list.replaceChildren(...(rows.length ? rows.map((entries) => (entries.length > 1 ? several(entries, open) : one(entries[0]))) : otherwise));
  if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

function one(entry) {
  const name = entry.about ? whyLink(entry.about, entry.name) : entry.name;
  return el("li", {}, el("time", { class: "dim" }, clock(entry.at)), " ", el("strong", {}, entry.kind), " ", name, " ", entry.text, entry.verdict in VERDICTS ? tag(VERDICTS[entry.verdict], entry.verdict === "withheld" ? "dim" : "warn") : null, again(entry),
    entry.instead ? el("div", { class: "dim" }, `Instead: ${entry.instead}`) : null);
}

const about = (entry) => (entry.kind === "evict" ? `from ${(entry.related[0] ?? "").replace("nodes ", "")}` : daemon(entry) ? "of DaemonSets" : "of pods");

function several(entries, open) {
  const key = String(entries.at(-1).number);
  return el("li", {}, el("details", { open: open.has(key), "data-key": key }, el("summary", {}, el("time", { class: "dim" }, clock(entries[0].at)), ` ${number(entries.length)} × `, el("strong", {}, entries[0].kind), ` ${about(entries[0])}: ${entries.slice(0, 3).map((each) => each.name).join(", ")}${entries.length > 3 ? " …" : ""}`), el("ol", { class: "story" }, ...entries.slice(0, 50).map(one))));
}

export const timeline = new TimelineView();
