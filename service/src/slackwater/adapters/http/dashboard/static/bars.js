// One resource of one node as a bar, with the same in words. See bars.css for what it looks like.
import { el, setAttribute, setText } from "./dom.js";
import { amount, percent } from "./units.js";

const TITLES = { cpu: "CPU", memory: "Memory" };

export function legend() {
  const bar = (...inside) => el("span", { class: "bar", "aria-hidden": "true" }, ...inside);
  const entry = (sign, text) => el("li", {}, sign, text);
  return el("ul", { class: "legend", "aria-label": "What the bars show" },
    entry(bar(el("span", { class: "reserved" })), "Reserved"),
    entry(bar(el("span", { class: "buffer" })), "of it Buffer: not yet claimed by an agent"),
    entry(bar(el("span", { class: "held" })), "held for pods about to be bound"),
    entry(bar(el("i")), "Watermark"),
    entry(bar(el("u")), "in use now, where that is known"),
    entry(bar(el("b")), "CapacityPressure: growth asked for and denied"),
    entry(Object.assign(bar(el("span", { class: "reserved" })), { className: "bar over" }), "Reserved is over Total"));
}

export class ResourceBar {
  constructor(resource) {
    this.resource = resource;
    this.parts = { reserved: el("span", { class: "reserved" }), buffer: el("span", { class: "buffer" }), held: el("span", { class: "held" }) };
    this.mark = el("i");
    this.pressure = el("b");
    this.use = el("u");
    this.bar = el("div", { role: "img" }, ...Object.values(this.parts), this.mark, this.pressure, this.use);
    this.amount = el("span", { class: "amount" });
    this.element = el("div", { class: "resource" }, this.bar, this.amount);
  }

  // `used`: null where it is not known.
  fill({ total, watermark, reserved, buffer, capacityPressure, held, used }) {
    const share = (part) => `${Math.max(0, Math.min(100, (100 * part) / Math.max(total, 1)))}%`;
    const format = amount[this.resource];
    this.bar.className = reserved > total ? "bar over" : "bar";
    this.parts.reserved.style.width = share(reserved - buffer);
    this.parts.buffer.style.width = share(buffer);
    this.parts.held.style.width = share(held);
    this.mark.style.left = share(watermark);
    this.pressure.style.width = share(capacityPressure);
    this.use.style.width = share(used ?? 0);
    const words = [`${TITLES[this.resource]}: ${format(reserved)} of ${format(total)} reserved, ${percent(reserved, total)}`];
    if (used !== null) words.push(`${format(used)} in use`);
    if (buffer) words.push(`buffer ${format(buffer)}`);
    if (held) words.push(`held ${format(held)}`);
    words.push(`watermark ${format(watermark)}`);
    if (capacityPressure) words.push(`pressure ${format(capacityPressure)}`);
    if (reserved > total) words.push("over Total");
    const text = words.join(", ");
    setAttribute(this.bar, "aria-label", text);
    setAttribute(this.element, "title", text);
    setText(this.amount, `${format(reserved)} / ${format(total)}`);
  }
}
