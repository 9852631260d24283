// Every node as a cell on one canvas: colour by a share of the node, border by pressure, a block for each group, zone or type,
// the fullest first. One drawing serves thousands of nodes; arrow keys move a cursor, Enter opens the node.
import { el, setAttribute, setText } from "./dom.js";
import { NOT_READY, CORDONED, QUARANTINED } from "./state.js";
import { WALL, amount, many, percent } from "./units.js";

// The shares, in percent, where a colour begins. They lie closer where nodes are mostly filled to.
export const BANDS = [0, 25, 50, 60, 70, 80, 90];
export const band = (share) => Math.max(0, BANDS.findLastIndex((least) => 100 * share >= least));
const SIZES = [5, 4, 3.2, 2.6, 2.1, 1.7, 1.4, 1.2, 1, 0.85, 0.7, 0.6, 0.5, 0.42]; // of a cell, in rem
const NUMBERED = 1.7; // cells of this size have room for their number
const ROWS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 26, 34, 44]; // of cells in a shelf of blocks
// Of the window's height, where the map begins far down. Nobody scrolls a wall.
const LEAST_SHARE = 0.42;
const LEAST_ON_WALL = 0.28;
// Where names alone need more height than that, cells need not be as small as they get: so much more is all that it costs.
const MORE = 1.3;
const FACETS = { group: "node group", zone: "zone", type: "instance type" };
const each = (resource) => (line, row) => line[`${resource}.reserved`][row] / Math.max(1, line[`${resource}.total`][row]);
const used = (resource) => (line, row, use) => (use?.[resource][row] ?? 0) / Math.max(1, line[`${resource}.total`][row]);
const SHARES = {
  most: ["the larger share", (line, row) => Math.max(each("cpu")(line, row), each("memory")(line, row))],
  cpu: ["CPU reserved", each("cpu")],
  memory: ["memory reserved", each("memory")],
  "used-cpu": ["CPU used", used("cpu")],
  "used-memory": ["memory used", used("memory")],
};

const choice = (label, options, changed) => {
  const select = el("select", { onchange: () => changed(select.value) }, ...options.map(([value, text]) => el("option", { value }, text)));
  return { select, element: el("label", {}, label, select) };
};

export class HeatMap {
  // `open(name)` opens a node's page; `choose(name, value)` keeps a choice in the address.
  constructor({ open, choose }) {
    this.open = open;
    this.cells = [];
    this.at = 0;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Nodes by reserved share" });
    this.caption = el("p", { class: "dim caption", role: "status" });
    this.by = choice("Blocks by", Object.entries(FACETS), (value) => choose("by", value));
    this.colour = choice("Colour by", Object.entries(SHARES).map(([value, [text]]) => [value, text]), (value) => choose("colour", value));
    const texts = BANDS.map((least, at) => (at ? (BANDS[at + 1] ? `${least} to ${BANDS[at + 1]} %` : `${least} % or more`) : `below ${BANDS[1]} %`));
    const key = el("ul", { class: "legend", "aria-label": "What the colours show" }, ...texts.map((text, at) => el("li", {}, el("span", { class: `cell heat${at}`, "aria-hidden": "true" }), text)),
      el("li", {}, el("span", { class: "cell pressed", "aria-hidden": "true" }), "pressure or over Total"), el("li", {}, el("span", { class: "cell away", "aria-hidden": "true" }), "takes no pods"));
    this.place = el("div", {}, this.canvas);
    this.element = el("div", { class: "heat" }, el("div", { class: "tools" }, this.by.element, this.colour.element), key, this.place, this.caption);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("click", (event) => { this.hover(event); this.enter(); });
    this.canvas.addEventListener("keydown", (event) => this.pressed(event));
    this.canvas.addEventListener("focus", () => { this.say(); this.paint(); });
    this.canvas.addEventListener("blur", () => this.paint());
    new ResizeObserver(() => { if (this.state) this.draw(this.state, this.query); }).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colours = null; this.paint(); });
  }

  draw(state, query) {
    Object.assign(this, { state, query });
    const width = Math.floor(this.element.clientWidth);
    if (!state.line || !width) return;
    this.by.select.value = query.get("by") in FACETS ? query.get("by") : "group";
    this.colour.select.value = query.get("colour") in SHARES ? query.get("colour") : "most";
    const [title, share] = SHARES[this.colour.select.value];
    const { use } = state.sections;
    for (const option of this.colour.select.options) option.hidden = option.value.startsWith("used-") && !use;
    const shares = state.nodes.names.map((_, row) => share(state.line, row, use));
    const blocks = this.blocks(shares);
    const height = this.lay(blocks, width, shares);
    Object.assign(this.canvas.dataset, { by: this.by.select.value, blocks: blocks.length, cell: this.size });
    this.at = Math.min(this.at, Math.max(0, this.cells.length - 1));
    const scale = devicePixelRatio || 1;
    if (this.width !== width || this.height !== height || this.scale !== scale) {
      Object.assign(this, { width, height, scale });
      this.canvas.width = width * scale;
      this.canvas.height = Math.max(1, height * scale);
      this.canvas.style.height = `${height}px`;
    }
    const full = shares.filter((one) => one >= 0.9).length;
    setAttribute(this.canvas, "aria-label", `${many(shares.length, "node")}, ${full} of them at least 90 % full by ${title}. Arrow keys move, Enter opens a node.`);
    this.paint();
  }

  // The rows of nodes of each block, by name.
  blocks(shares) {
    const facet = this.by.select.value;
    const found = new Map();
    shares.forEach((_, row) => {
      const name = this.state.facetOf(facet, row) || `no ${FACETS[facet]}`;
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(row);
    });
    for (const rows of found.values()) rows.sort((one, other) => shares[other] - shares[one] || one - other);
    return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
  }

  // Places the blocks beside one another on shelves, with the largest cells with which they fit into the window's rest.
  lay(blocks, width, shares) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const top = this.place.getBoundingClientRect().top + scrollY;
    const room = Math.max(innerHeight - top - 9 * rem, (WALL.matches ? LEAST_ON_WALL : LEAST_SHARE) * innerHeight);
    this.font = Math.round(0.78 * rem);
    this.head = Math.round(1.4 * this.font); // with room for what hangs below the line
    const pen = this.canvas.getContext("2d");
    pen.font = `${this.font}px system-ui, sans-serif`;
    const named = blocks.map(([name, rows]) => ({ text: `${name}, ${rows.length}`, rows }));
    for (const block of named) block.least = Math.min(width, pen.measureText(block.text).width + rem);
    const sizes = SIZES.map((cell) => Math.floor(cell * rem));
    let best = this.largest(named, width, sizes, room);
    if (best.height > room) best = this.largest(named, width, sizes, MORE * best.height);
    Object.assign(this, { size: best.size, numbered: best.size >= NUMBERED * rem, heads: best.blocks, cells: [] });
    for (const { x, y, columns, rows } of best.blocks) {
      rows.forEach((row, at) => this.cells.push({ row, share: shares[row], x: x + (at % columns) * best.size, y: y + this.head + Math.floor(at / columns) * best.size, columns }));
    }
    return best.height;
  }

  // The blocks on shelves with the largest cells that fit into the room; with none that fits, the lowest shelves.
  largest(named, width, sizes, room) {
    let best = null;
    for (const size of sizes) {
      for (const high of ROWS) {
        const shelves = this.shelves(named, width, size, high);
        if (!best || shelves.height < best.height) best = { ...shelves, size };
        if (shelves.height <= room) return { ...shelves, size };
      }
    }
    return best;
  }

  // Where each block is if a shelf is `high` cells high; a block that is too wide for that has a higher shelf of its own.
  shelves(named, width, size, high) {
    const most = Math.max(1, Math.floor(width / size));
    const blocks = [];
    let [x, y, tallest] = [0, 0, 0];
    for (const { text, rows, least } of named) {
      const columns = Math.min(most, Math.max(Math.ceil(rows.length / high), Math.min(rows.length, Math.floor(least / size))));
      const wide = Math.max(columns * size, least);
      if (x && x + wide > width) [x, y, tallest] = [0, y + tallest, 0];
      blocks.push({ text, rows, columns, x, y });
      x += wide + size / 2;
      tallest = Math.max(tallest, this.head + Math.ceil(rows.length / columns) * size + 8);
    }
    return { blocks, height: Math.ceil(y + tallest) };
  }

  paint() {
    if (!this.cells.length) return;
    const style = getComputedStyle(this.element);
    this.colours ??= BANDS.map((_, at) => getComputedStyle(this.element.querySelector(`.heat${at}`)).backgroundColor);
    const pen = this.canvas.getContext("2d");
    const pressed = getComputedStyle(this.element.querySelector(".pressed")).borderTopColor;
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = `${this.font}px system-ui, sans-serif`;
    pen.fillStyle = style.color;
    for (const head of this.heads) pen.fillText(head.text, head.x, head.y + this.font);
    const side = this.size - (this.size > 12 ? 2 : 1);
    for (const cell of this.cells) {
      const line = this.state.line;
      const away = line.flags[cell.row] & (NOT_READY | CORDONED | QUARANTINED);
      const colour = this.colours[band(cell.share)];
      pen.fillStyle = colour;
      pen.fillRect(cell.x, cell.y, side, side);
      if (this.numbered) {
        pen.fillStyle = inkOn(colour);
        pen.fillText(String(Math.round(cell.share * 100)), cell.x + 4, cell.y + this.font + 1);
      }
      if (away) this.strike(pen, cell, side, inkOn(colour));
      if (cell.share > 1 || line["cpu.capacityPressure"][cell.row] > 0 || line["memory.capacityPressure"][cell.row] > 0) {
        pen.strokeStyle = pressed;
        pen.lineWidth = 2;
        pen.strokeRect(cell.x + 1, cell.y + 1, side - 2, side - 2);
      }
    }
    const cursor = this.cells[this.at];
    if (cursor && document.activeElement === this.canvas) {
      pen.strokeStyle = style.color;
      pen.lineWidth = 2;
      pen.strokeRect(cursor.x, cursor.y, side, side);
    }
  }

  // A node that takes no pods is struck through.
  strike(pen, cell, side, colour) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(cell.x, cell.y + side);
    pen.lineTo(cell.x + side, cell.y);
    pen.stroke();
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const found = this.cells.findIndex((cell) => x >= cell.x && x < cell.x + this.size && y >= cell.y && y < cell.y + this.size);
    if (found < 0) { this.hit = false; return; }
    this.hit = true;
    this.at = found;
    this.say();
  }

  say() {
    const cell = this.cells[this.at];
    if (!cell) return;
    const { line, nodes } = this.state;
    const part = (title, resource) => {
      const [reserved, total, used] = [line[`${resource}.reserved`][cell.row], line[`${resource}.total`][cell.row], this.state.sections.use?.[resource][cell.row] ?? null];
      return `${title} ${percent(reserved, total)} (${amount[resource](reserved)} of ${amount[resource](total)}${used === null ? "" : `, uses ${amount[resource](used)}`})`;
    };
    const flags = line.flags[cell.row];
    const marks = [flags & NOT_READY ? "not ready" : "", flags & CORDONED ? "cordoned" : "", flags & QUARANTINED ? "quarantined" : ""].filter(Boolean);
    const facets = Object.keys(FACETS).map((facet) => this.state.facetOf(facet, cell.row)).filter(Boolean);
    setText(this.caption, `${nodes.names[cell.row]}: ${part("CPU", "cpu")}, ${part("memory", "memory")}, ${many(line.pods[cell.row], "pod")}, ${[...facets, ...marks].join(", ")}`);
  }

  enter() {
    const cell = this.cells[this.at];
    if (cell && this.hit !== false) this.open(this.state.nodes.names[cell.row]);
  }

  pressed(event) {
    const columns = this.cells[this.at]?.columns ?? 1;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -this.cells.length, End: this.cells.length };
    if (event.key === "Enter") { this.hit = true; this.enter(); return; }
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(this.cells.length - 1, this.at + steps[event.key]));
    this.say();
    this.paint();
  }
}

// Black or white, whichever is easier to read on the colour.
function inkOn(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}
