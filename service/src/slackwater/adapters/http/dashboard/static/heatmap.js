// Every node as a cell on one canvas: colour by the larger reserved share, border by pressure, a block for each group, the
// fullest first. One drawing serves thousands of nodes; arrow keys move a cursor, Enter opens the node.
import { el, setText } from "./dom.js";
import { NOT_READY, CORDONED, QUARANTINED } from "./state.js";
import { cpu, memory, percent } from "./units.js";

const HEAD = 18;
const STEPS = 6;
const NUMBERED = 30; // cells of this size have room for their number
const SIZES = [64, 48, 34, 28, 22, 18, 14, 12, 10];

export class HeatMap {
  constructor({ open }) {
    this.open = open;
    this.cells = [];
    this.at = 0;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Nodes by reserved share" });
    this.told = el("p", { class: "dim told", role: "status" });
    const key = el("ul", { class: "legend", "aria-label": "What the colours show" }, ...["0", "20", "40", "60", "80", "100 %"].map((text, step) => el("li", {}, el("span", { class: `cell heat${step}`, "aria-hidden": "true" }), text)),
      el("li", {}, el("span", { class: "cell pressed", "aria-hidden": "true" }), "pressure or over Total"), el("li", {}, el("span", { class: "cell away", "aria-hidden": "true" }), "takes no pods"));
    this.element = el("div", { class: "heat" }, key, this.canvas, this.told);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("click", (event) => { this.hover(event); this.enter(); });
    this.canvas.addEventListener("keydown", (event) => this.pressed(event));
    this.canvas.addEventListener("focus", () => { this.say(); this.paint(); });
    this.canvas.addEventListener("blur", () => this.paint());
    new ResizeObserver(() => { if (this.state) this.draw(this.state); }).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colours = null; this.paint(); });
  }

  draw(state) {
    this.state = state;
    const width = Math.floor(this.element.clientWidth);
    if (!state.line || !width) return;
    const shares = state.nodes.names.map((_, row) => Math.max(...["cpu", "memory"].map((r) => state.line[`${r}.reserved`][row] / Math.max(1, state.line[`${r}.total`][row]))));
    const groups = new Map();
    shares.forEach((_, row) => { const name = state.groupOf(row) || "no group"; if (!groups.has(name)) groups.set(name, []); groups.get(name).push(row); });
    const count = shares.length;
    // The largest cells that leave the map within half of the window's height.
    const height = (size) => [...groups.values()].reduce((sum, rows) => sum + HEAD + 6 + size * Math.ceil(rows.length / Math.max(1, Math.floor(width / size))), 0);
    this.size = SIZES.find((size) => height(size) <= innerHeight / 2) ?? SIZES.at(-1);
    this.perRow = Math.max(1, Math.floor(width / this.size));
    let top = 0;
    this.cells = [];
    this.heads = [];
    for (const [name, rows] of [...groups].sort(([one], [other]) => (one < other ? -1 : 1))) {
      rows.sort((one, other) => shares[other] - shares[one] || one - other);
      this.heads.push({ name: `${name}, ${rows.length}`, top });
      top += HEAD;
      rows.forEach((row, index) => this.cells.push({ row, share: shares[row], x: (index % this.perRow) * this.size, y: top + Math.floor(index / this.perRow) * this.size }));
      top += Math.ceil(rows.length / this.perRow) * this.size + 6;
    }
    this.at = Math.min(this.at, Math.max(0, this.cells.length - 1));
    const scale = devicePixelRatio || 1;
    if (this.width !== width || this.height !== top || this.scale !== scale) {
      Object.assign(this, { width, height: top, scale });
      this.canvas.width = width * scale;
      this.canvas.height = Math.max(1, top * scale);
      this.canvas.style.height = `${top}px`;
    }
    const full = shares.filter((share) => share >= 0.9).length;
    const label = `${count} nodes, ${full} of them at least 90 % reserved. Arrow keys move, Enter opens a node.`;
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
    this.paint();
  }

  paint() {
    if (!this.cells.length) return;
    const style = getComputedStyle(this.element);
    this.colours ??= Array.from({ length: STEPS }, (_, step) => getComputedStyle(this.element.querySelector(`.heat${step}`)).backgroundColor);
    const pen = this.canvas.getContext("2d");
    const pressed = getComputedStyle(this.element.querySelector(".pressed")).borderTopColor;
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = style.color;
    for (const head of this.heads) pen.fillText(head.name, 0, head.top + 13);
    const side = this.size - 2;
    for (const cell of this.cells) {
      const line = this.state.line;
      const away = line.flags[cell.row] & (NOT_READY | CORDONED | QUARANTINED);
      const step = Math.min(STEPS - 1, Math.max(0, Math.round(cell.share * (STEPS - 1))));
      pen.fillStyle = this.colours[step];
      pen.fillRect(cell.x, cell.y, side, side);
      if (side >= NUMBERED) this.number(pen, cell, step, side);
      if (away) this.strike(pen, cell, side, style.color);
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

  // The share in percent, black or white, whichever is easier to read.
  number(pen, cell, step, side) {
    const [red, green, blue] = this.colours[step].match(/[\d.]+/g).map(Number);
    pen.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue > 130 ? "#000" : "#fff";
    pen.fillText(String(Math.round(cell.share * 100)), cell.x + 5, cell.y + 15);
    pen.fillStyle = this.colours[step];
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
    const part = (name, words) => `${name} ${percent(line[`${name === "CPU" ? "cpu" : "memory"}.reserved`][cell.row], line[`${name === "CPU" ? "cpu" : "memory"}.total`][cell.row])} (${words})`;
    const flags = line.flags[cell.row];
    const marks = [flags & NOT_READY ? "not ready" : "", flags & CORDONED ? "cordoned" : "", flags & QUARANTINED ? "quarantined" : ""].filter(Boolean);
    setText(this.told, `${nodes.names[cell.row]}: ${part("CPU", `${cpu(line["cpu.reserved"][cell.row])} of ${cpu(line["cpu.total"][cell.row])}`)}, ${part("memory", `${memory(line["memory.reserved"][cell.row])} of ${memory(line["memory.total"][cell.row])}`)}, ${line.pods[cell.row]} pods${marks.length ? `, ${marks.join(", ")}` : ""}`);
  }

  enter() {
    const cell = this.cells[this.at];
    if (cell && this.hit !== false) this.open(this.state.nodes.names[cell.row]);
  }

  pressed(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.perRow, ArrowUp: -this.perRow, Home: -this.cells.length, End: this.cells.length };
    if (event.key === "Enter") { this.hit = true; this.enter(); return; }
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(this.cells.length - 1, this.at + steps[event.key]));
    this.say();
    this.paint();
  }
}
