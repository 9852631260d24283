// The first view: what is wrong, since when and what to do; the figures with their last hour and day; and every node.
import { el, setText, tag } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { Sparkline } from "./spark.js";
import { one } from "./timeline.js";
import { age, number } from "./units.js";
import { goWhy } from "./why.js";

const perMinute = (step) => (value) => (value === null ? null : Math.round((value * 60) / step));
const percents = (value) => (value === null ? null : Math.round(value / 10));
const same = (value) => value;
const share = (resource) => (state) => {
  const sum = (name) => state.line[`${resource}.${name}`].reduce((one, other) => one + other, 0);
  return `${Math.round((100 * sum("reserved")) / Math.max(1, sum("total")))} %`;
};
const last = (state, name) => state.sections.series?.hour.points[name].at(-1) ?? 0;
const TILES = [
  { title: "CPU reserved", name: "cpuPermille", now: share("cpu"), scale: () => percents, most: 100, unit: " %", link: "nodes?order=cpu" },
  { title: "Memory reserved", name: "memoryPermille", now: share("memory"), scale: () => percents, most: 100, unit: " %", link: "nodes?order=memory" },
  { title: "Pending pods", name: "pending", now: (state) => number(state.list("pending").total), scale: () => same, more: (state) => { const at = state.list("pending").entries.map((each) => each.createdAt); return at.length ? `oldest ${age(Math.min(...at))}` : "none waits"; }, link: "pending" },
  { title: "Failures a minute", name: "failures", now: (state) => number(Math.round((last(state, "failures") * 60) / 15)), scale: perMinute, link: "timeline?kind=wait" },
  { title: "Pods placed a minute", name: "binds", now: (state) => number(Math.round((last(state, "binds") * 60) / 15)), scale: perMinute, link: "timeline" },
  { title: "Nodes", name: "nodes", now: (state) => number(state.nodes.names.length), scale: () => same, more: (state) => { const sum = (name) => (state.sections.series?.hour.points[name] ?? []).reduce((one, other) => one + (other ?? 0), 0); return `last hour +${sum("nodesAdded")}, −${sum("nodesRemoved")}`; }, link: "groups" },
];

const EVERYDAY = new Set(["bind", "wait", "permit", "nominate"]);
const LATELY = 10;

class Tile {
  constructor(tile) {
    this.tile = tile;
    this.value = el("span", { class: "value" });
    this.more = el("span", { class: "more dim" });
    this.hour = new Sparkline(`${tile.title}, last hour`);
    this.day = new Sparkline(`${tile.title}, last day`);
    this.element = el("li", {}, el("a", { class: "tile", href: `#/${tile.link}` }, el("span", { class: "dim" }, tile.title), this.value, this.more,
      el("span", { class: "sparks" }, el("span", {}, this.hour.element, el("small", {}, "hour")), el("span", {}, this.day.element, el("small", {}, "day")))));
  }

  draw(state, lines) {
    setText(this.value, this.tile.now(state));
    setText(this.more, this.tile.more?.(state) ?? " ");
    const series = state.sections.series;
    if (!lines || !series) return;
    for (const [spark, ring] of [[this.hour, series.hour], [this.day, series.day]]) {
      spark.draw(ring.points[this.tile.name].map(this.tile.scale(ring.stepSeconds)), { most: this.tile.most ?? 0, text: (value) => `${number(value)}${this.tile.unit ?? ""}` });
    }
  }
}

class Overview {
  id = "overview";
  title = "Overview";
  about = "";
  needs = ["nodes", "pending", "health", "series", "status", "timeline"];

  build() {
    this.health = el("div", { class: "health", role: "status" });
    this.tiles = TILES.map((tile) => new Tile(tile));
    this.map = new HeatMap({ open: (name) => goWhy("nodes", name) });
    this.lately = el("ol", { class: "story" });
    return el("div", {}, this.health, el("ul", { class: "tiles", "aria-label": "The cluster in figures" }, ...this.tiles.map((tile) => tile.element)),
      el("div", { class: "beside" },
        el("div", {}, el("h3", {}, "Nodes, the fullest first"), this.map.element, el("p", {}, el("a", { href: "#/nodes" }, "All nodes as a table"), " · ", el("a", { href: "#/slack" }, "Free room by group"))),
        el("div", {}, el("h3", {}, "Lately"), this.lately, el("p", {}, el("a", { href: "#/timeline" }, "The whole time line")))));
  }

  draw(state) {
    this.sentence(state);
    const end = state.sections.series?.hour.end;
    for (const tile of this.tiles) tile.draw(state, this.end !== `${end} ${state.boards}`);
    this.end = `${end} ${state.boards}`;
    this.map.draw(state);
    this.drawLately(state);
  }

  // The newest decisions but for those that are made for every pod.
  drawLately(state) {
    const found = state.list("timeline").entries.filter((entry) => !EVERYDAY.has(entry.kind)).slice(0, LATELY);
    const text = found.map((entry) => entry.number).join();
    if (this.told === text) return;
    this.told = text;
    const focused = this.lately.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.lately.replaceChildren(...(found.length ? found.map(one) : [el("li", { class: "dim" }, "Nothing but pods that were placed.")]));
    if (focused) this.lately.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }

  sentence(state) {
    const problems = state.sections.health?.problems ?? [];
    const open = this.health.querySelector("details")?.open ?? false;
    const text = problems.map((each) => `${each.code}${each.text}${age(each.since)}`).join("\n") || `well${state.nodes.names.length}${state.sections.status?.reservations}`;
    if (this.text === text) return;
    this.text = text;
    if (!problems.length) {
      this.health.className = "health well";
      this.health.replaceChildren(el("p", { class: "first" }, el("strong", {}, "All is well. "), `${number(state.nodes.names.length)} nodes, ${number(state.sections.status?.reservations ?? 0)} pods placed, none waits longer than a minute.`));
      return;
    }
    const [first, ...others] = problems;
    this.health.className = first.grave ? "health grave" : "health odd";
    const rest = others.length ? [el("details", { open }, el("summary", {}, `${others.length} more`), el("ul", { class: "plain" }, ...others.map((each) => el("li", {}, ...this.line(each)))))] : [];
    this.health.replaceChildren(el("p", { class: "first" }, ...this.line(first)), ...rest);
  }

  line(problem) {
    return [el("a", { href: `#/${problem.view}` }, problem.text), problem.since ? `, since ${age(problem.since)}. ` : ". ", el("span", { class: "dim" }, problem.todo), problem.grave ? tag("grave", "bad") : null].filter(Boolean);
  }
}

export const overview = new Overview();
