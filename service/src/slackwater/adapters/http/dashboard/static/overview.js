// The first view: what is wrong, since when and what to do; the figures with their last hour and day; and every node.
import { el, setText, tag } from "./dom.js";
import { Chart, RANGES, compact, counted, step } from "./charts.js";
import { HeatMap } from "./heatmap.js";
import { collapsed, redrawn } from "./timeline.js";
import { WALL, age, number } from "./units.js";
import { goWhy } from "./why.js";

const total = (values) => values.reduce((one, other) => one + other, 0);
const percents = (value) => `${Math.round(value)} %`;
const share = (resource) => (state) => percents((100 * total(state.line[`${resource}.reserved`])) / Math.max(1, total(state.line[`${resource}.total`])));
const known = (ring, name) => (ring.points[name] ?? []).filter((value) => value !== null);
const sum = (ring, name) => total(known(ring, name));
const price = (state) => state.sections.autoscaler?.cost?.present;
const money = (value) => value.toLocaleString("en", { minimumFractionDigits: value < 100 ? 2 : 0, maximumFractionDigits: value < 100 ? 2 : 0 });

// `now` is the large value; `more` is said below the chart where nobody points at it, else the least and the most.
const TILES = [
  { title: "Nodes", name: "nodes", text: counted("node"), now: (state) => number(state.nodes.names.length), whole: true, more: (_state, ring, range) => `+${number(sum(ring, "nodesAdded"))}, −${number(sum(ring, "nodesRemoved"))} in the last ${range}`, link: "nodes" },
  { title: "Cost an hour", name: "costMicros", most: 0.01, read: (micros) => micros / 1e6, text: (value, axis) => (axis ? compact(value) : money(value)), now: (state) => (price(state) ? money(Number(price(state).perHour)) : "–"), more: (state) => (price(state) ? `${price(state).currency} (${price(state).basis})` : state.sections.status?.leader.leads === false ? "the leader knows it" : "no prices known"), link: "groups" },
  { title: "Pending pods", name: "pending", text: counted("pod"), whole: true, now: (state) => number(state.list("pending").total), more: (state) => { const at = state.list("pending").entries.map((each) => each.createdAt); return at.length ? `oldest ${age(Math.min(...at))}` : "none waits"; }, link: "pending" },
  { title: "CPU reserved", name: "cpuPermille", resource: "cpu", most: 100, read: (permille) => permille / 10, text: percents, now: share("cpu"), link: "nodes?order=cpu" },
  { title: "Memory reserved", name: "memoryPermille", resource: "memory", most: 100, read: (permille) => permille / 10, text: percents, now: share("memory"), link: "nodes?order=memory" },
  { title: "Evictions", name: "evictions", bars: true, whole: true, text: counted("pod"), link: "timeline?kind=evict" },
  { title: "Failed attempts", name: "failures", bars: true, whole: true, text: counted("attempt"), link: "timeline?kind=wait" },
  { title: "Pods placed", name: "binds", bars: true, whole: true, text: counted("pod"), link: "timeline?kind=bind" },
];

const EVERYDAY = new Set(["bind", "wait", "permit", "nominate"]);
const LATELY = 10;
const ON_WALL = 26;

class Tile {
  constructor(tile) {
    this.tile = tile;
    this.value = el("span", { class: "value" });
    const lines = tile.resource ? [{ name: tile.name, label: "reserved" }, { name: `${tile.resource}UsedPermille`, label: "used", colour: "held" }] : [{ name: tile.name }];
    this.chart = new Chart({ lines, ...tile });
    this.element = el("li", { class: "tile" }, el("a", { href: `#/${tile.link}` }, el("span", {}, tile.title), this.value), this.chart.element);
  }

  draw(state, range, changed) {
    const { tile } = this;
    const ring = state.sections.series?.[range];
    setText(this.value, tile.bars ? number(ring ? sum(ring, tile.name) : 0) : tile.now(state));
    if (ring) this.chart.draw(ring, range, this.rest(state, ring, range), changed);
  }

  rest(state, ring, range) {
    const { tile } = this;
    const values = known(ring, tile.name).map(tile.read ?? ((value) => value));
    const most = values.length ? Math.max(...values) : 0;
    if (tile.more) return tile.more(state, ring, range);
    const about = tile.bars ? `at most ${number(most)} in ${step(ring.stepSeconds)}` : `${tile.text(values.length ? Math.min(...values) : 0)} to ${tile.text(most)}`;
    const use = tile.resource && state.sections.use?.[tile.resource];
    return use ? `used now: ${percents((100 * total(use)) / Math.max(1, total(state.line[`${tile.resource}.total`])))}` : `last ${range}: ${about}`;
  }
}

class Overview {
  id = "overview";
  title = "Overview";
  about = "";
  needs = ["nodes", "use", "pending", "health", "series", "status", "timeline"];

  build() {
    this.health = el("div", { class: "health", role: "status" });
    this.tiles = TILES.map((tile) => new Tile(tile));
    const choose = (name, value) => location.replace(`#/overview?${changed(this.query, name, value)}`);
    this.map = new HeatMap({ open: (name) => goWhy("nodes", name), choose });
    this.lately = el("ol", { class: "story" });
    this.ranges = Object.keys(RANGES).map((range) => el("a", {}, range));
    return el("div", { class: "overview" }, this.health,
      el("div", { class: "figures-over-time" }, el("p", { class: "ranges" }, "The last ", ...this.ranges),
        el("ul", { class: "tiles", "aria-label": "The cluster in figures" }, ...this.tiles.map((tile) => tile.element))),
      el("div", {}, el("h3", {}, "Nodes, the fullest first"), this.map.element, el("p", {}, el("a", { href: "#/nodes" }, "All nodes as a table"), " · ", el("a", { href: "#/slack" }, "Free room by group"))),
      el("div", { class: "lately" }, el("h3", {}, "Lately"), this.lately, el("p", {}, el("a", { href: "#/timeline" }, "The whole time line"))));
  }

  draw(state, _rest, query) {
    this.query = query ?? this.query;
    this.sentence(state);
    const range = this.query.get("range") in RANGES ? this.query.get("range") : "hour";
    for (const link of this.ranges) {
      link.href = `#/overview?${changed(this.query, "range", link.textContent)}`;
      if (link.textContent === range) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const end = `${range} ${state.sections.series?.[range].end} ${state.boards}`;
    for (const tile of this.tiles) tile.draw(state, range, this.end !== end);
    this.end = end;
    this.map.draw(state, this.query);
    this.drawLately(state);
  }

  // The newest decisions but for those that are made for every pod.
  drawLately(state) {
    const found = collapsed(state.list("timeline").entries.filter((entry) => !EVERYDAY.has(entry.kind))).slice(0, WALL.matches ? ON_WALL : LATELY);
    const text = found.map((entries) => `${entries[0].number} ${entries.length}`).join();
    if (this.shown === text) return;
    this.shown = text;
    redrawn(this.lately, found, [el("li", { class: "dim" }, "Nothing but pods that were placed.")]);
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

// The filters of the address with one of them changed.
function changed(query, name, value) {
  const others = new URLSearchParams(query);
  others.set(name, value);
  return others;
}

export const overview = new Overview();
