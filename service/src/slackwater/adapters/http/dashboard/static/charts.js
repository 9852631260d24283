// A figure over the last hour, day or week: now and in sum, and a chart with a time axis and the value under the pointer.
// uPlot draws; it is loaded before this module and makes itself known as a global. All charts share the pointer's time.
import { el, setAttribute, setText } from "./dom.js";
import { clock, many } from "./units.js";

const uPlot = globalThis.uPlot;

// The rings of `/series` with their length in seconds.
export const RANGES = { hour: 3600, day: 86400, week: 604800 };

const SCHEME = matchMedia("(prefers-color-scheme: dark)");
const probe = el("i", { hidden: true });
let colours = new Map();
SCHEME.addEventListener("change", () => { colours = new Map(); });

// A colour of the style sheets as the canvas understands it.
function colour(name) {
  if (!colours.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

const WHOLE = Array.from({ length: 8 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const font = () => `${Math.round(0.72 * rem())}px system-ui, sans-serif`;
const minutes = (at) => clock(at).slice(0, 5);
const date = (at) => new Date(at * 1000).toLocaleDateString("en", { weekday: "short", day: "numeric" });
export const step = (seconds) => (seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`);

export class Chart {
  // `lines`: {name, label, colour} of the figures; `bars` for those that count; `read(value)` scales a value, `text(value)` says it; `most` is the least top of the scale, `whole`: only whole numbers stand beside it.
  constructor({ title, lines, bars = false, read = (value) => value, text, most = 1, whole = false }) {
    Object.assign(this, { title, lines, bars, read, text, most, incrs: whole ? WHOLE : undefined });
    this.caption = el("p", { class: "caption dim" });
    this.plot = el("div", { class: "plot", role: "img", "aria-label": title });
    this.element = el("div", { class: "chart" }, this.plot, this.caption);
    new ResizeObserver(() => this.fit()).observe(this.plot);
    SCHEME.addEventListener("change", () => this.chart?.redraw());
  }

  // The points of a ring of `/series`, which range they are, and what is said below where nobody points. `changed`: the points are others than before.
  draw(ring, range, rest, changed) {
    if (this.rest !== rest) {
      this.rest = rest;
      if (!this.pointed) setText(this.caption, rest);
    }
    if (!changed) return;
    const known = ring.points[this.lines[0].name] ?? [];
    const first = ring.end - known.length * ring.stepSeconds;
    const points = this.lines.map(({ name }) => (ring.points[name] ?? []).map((value) => (value === null ? null : this.read(value))));
    const same = this.range === range;
    Object.assign(this, { ring, range, data: [known.map((_, index) => first + index * ring.stepSeconds), ...points] });
    if (!same) this.chart = this.chart?.destroy();
    if (this.chart) this.chart.setData(this.data);
    else this.fit();
    const values = points[0].filter((value) => value !== null);
    const words = values.length ? `now ${this.text(values.at(-1))}, highest ${this.text(Math.max(...values))}` : "no values yet";
    setAttribute(this.plot, "aria-label", `${this.title}, last ${range}: ${words}`);
  }

  fit() {
    const [width, height] = [this.plot.clientWidth, this.plot.clientHeight];
    if (!this.data || !width || !height) return;
    if (this.chart && this.size === rem()) this.chart.setSize({ width, height });
    else {
      this.chart?.destroy();
      this.size = rem();
      this.chart = new uPlot(this.options(width, height), this.data, this.plot);
    }
  }

  options(width, height) {
    const times = this.range === "week" ? date : minutes;
    const axis = { stroke: () => colour("dim"), font: font(), ticks: { show: false }, gap: 4 };
    const grid = { stroke: () => colour("line"), width: 1 };
    const bars = uPlot.paths.bars({ size: [0.8, 100], align: 1 });
    return {
      width,
      height,
      padding: [0.55 * rem(), 1.2 * rem(), 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "slackwater", setSeries: false }, drag: { x: false, y: false }, y: false, points: { size: 7 } },
      scales: {
        x: { range: () => [this.ring.end - RANGES[this.range], this.ring.end] },
        y: { range: (_chart, _least, most) => [0, Math.max(this.most, (most ?? 0) * 1.08)] },
      },
      axes: [
        { ...axis, size: 1.3 * rem(), space: Math.min(3.6 * rem(), width / 4), grid: { show: false }, values: (_chart, at) => at.map(times) },
        { ...axis, size: 2.9 * rem(), space: 1.6 * rem(), grid, incrs: this.incrs, values: (_chart, values) => values.map((value) => this.text(value, true)) },
      ],
      series: [
        {},
        ...this.lines.map((line) => ({
          stroke: () => colour(line.colour ?? "reserved"),
          fill: this.bars ? () => colour(line.colour ?? "reserved") : undefined,
          width: this.bars ? 0 : 0.09 * rem(),
          // A line needs two values; a figure that has only begun is a dot.
          points: { size: 0.3 * rem(), show: (_chart, at) => !this.bars && this.data[at].filter((value) => value !== null).length < 3 },
          paths: this.bars ? bars : undefined,
        })),
      ],
      hooks: { setCursor: [(chart) => this.say(chart.cursor.idx)] },
    };
  }

  // Below the chart: the values under the pointer.
  say(index) {
    const { ring, range, data } = this;
    this.pointed = index !== null && index !== undefined;
    if (index !== null && index !== undefined && data[0][index] !== undefined) {
      const at = data[0][index];
      const known = this.lines.map(({ label }, line) => [label, data[line + 1][index]]).filter(([, value]) => value !== null && value !== undefined);
      const values = known.length ? known.map(([label, value]) => (known.length > 1 ? `${label} ${this.text(value)}` : this.text(value))) : ["unknown"];
      setText(this.caption, `${range === "hour" ? "" : `${date(at)} `}${range === "hour" ? clock(at) : minutes(at)}: ${values.join(", ")}${this.bars ? ` in ${step(ring.stepSeconds)}` : ""}`);
      return;
    }
    setText(this.caption, this.rest);
  }
}

// For people, and shorter for an axis: 12K rather than 12,000 pods.
export const counted = (one) => (value, axis) => (axis ? compact(value) : many(value, one));

export const compact = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
