// A table of any length that holds only the rows in sight. Screen readers get the true number of rows and each one's
// place; one row's link is in the tab order, and the arrow keys, Page Up and Down, Home and End move among all of them.
import { el, setAttribute } from "./dom.js";

const PHONE = matchMedia("(max-width: 40rem)");
const MORE = 8; // rows beyond either edge

export class LongTable {
  // `columns`: {title, class, width}. `make()` gives {row, link, fill(item)}; `key(item)` tells rows apart.
  constructor({ label, columns, make, key, rowHeight = 42 }) {
    this.make = make;
    this.key = key;
    this.rowHeight = rowHeight;
    this.items = [];
    this.rows = new Map();
    this.spare = [];
    this.current = 0;
    this.above = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: columns.length }));
    this.below = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: columns.length }));
    this.body = el("tbody", {}, this.above, this.below);
    const head = columns.map(({ title, class: kind, width }) => {
      const cell = el("th", { scope: "col", class: kind }, title);
      if (width) cell.style.width = width;
      return cell;
    });
    this.table = el("table", { class: "fixed", "aria-label": label }, el("thead", {}, el("tr", { "aria-rowindex": 1 }, ...head)), this.body);
    this.element = el("div", { class: "scroll long", role: "region", "aria-label": `${label}, scrollable`, tabindex: 0 }, this.table);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.table.addEventListener("keydown", (event) => this.pressed(event));
    this.table.addEventListener("focusin", (event) => this.focused(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(items) {
    this.items = items;
    this.current = Math.max(0, Math.min(this.current, items.length - 1));
    setAttribute(this.table, "aria-rowcount", String(items.length + 1));
    this.draw();
  }

  draw() {
    if (!this.element.isConnected || this.element.offsetParent === null) return;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.rowHeight) - MORE);
    const seen = Math.ceil(this.element.clientHeight / this.rowHeight) + 2 * MORE;
    const last = Math.min(this.items.length, first + Math.max(seen, 2 * MORE));
    const focus = this.body.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.key : null;
    const wanted = new Map();
    for (let index = first; index < last; index++) wanted.set(String(this.key(this.items[index])), index);
    for (const [key, made] of this.rows) {
      if (!wanted.has(key)) {
        made.row.remove();
        this.rows.delete(key);
        this.spare.push(made);
      }
    }
    let before = this.above;
    for (const [key, index] of wanted) {
      const made = this.rows.get(key) ?? this.spare.pop() ?? this.make();
      this.rows.set(key, made);
      made.row.dataset.key = key;
      made.row.dataset.index = index;
      setAttribute(made.row, "aria-rowindex", String(index + 2));
      setAttribute(made.link, "tabindex", index === this.current ? "0" : "-1");
      made.fill(this.items[index]);
      if (before.nextSibling !== made.row) before.after(made.row);
      before = made.row;
    }
    this.measure(wanted.size ? before : null);
    this.above.firstChild.style.height = `${first * this.rowHeight}px`;
    this.below.firstChild.style.height = `${Math.max(0, this.items.length - last) * this.rowHeight}px`;
    if (focus !== null && !this.body.contains(document.activeElement)) this.rows.get(focus)?.link.focus({ preventScroll: true });
  }

  // On a phone the cells of a row are below one another: its height is what they need. All rows have the same.
  measure(row) {
    if (!row?.offsetHeight || this.measured === PHONE.matches) return;
    this.measured = PHONE.matches;
    this.rowHeight = row.offsetHeight;
    requestAnimationFrame(() => this.draw());
  }

  focused(event) {
    const row = event.target.closest("tbody tr");
    if (!row?.dataset.index) return;
    this.current = Number(row.dataset.index);
    for (const made of this.rows.values()) setAttribute(made.link, "tabindex", made.row === row ? "0" : "-1");
  }

  pressed(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.items.length, End: this.items.length };
    const step = steps[event.key];
    if (step === undefined || !event.target.closest("tbody")) return;
    event.preventDefault();
    this.go(Math.max(0, Math.min(this.items.length - 1, this.current + step)));
  }

  go(index) {
    if (!this.items.length) return;
    this.current = index;
    const head = this.table.tHead.offsetHeight;
    const top = index * this.rowHeight;
    const view = this.element.clientHeight - head;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > this.element.scrollTop + view) this.element.scrollTop = top + this.rowHeight - view;
    this.draw();
    this.rows.get(String(this.key(this.items[index])))?.link.focus({ preventScroll: true });
  }
}
