// Sparklines as SVG paths: a line over the last hour or day. Missing values are gaps.
const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

export class Sparkline {
  constructor(label) {
    this.label = label;
    this.path = svg("path", { class: "line" });
    this.element = svg("svg", { class: "spark", viewBox: "0 0 120 28", preserveAspectRatio: "none", role: "img", "aria-label": label });
    this.element.append(this.path);
  }

  // `most` is the top of the scale, or 0 for the largest value; `text(value)` says a value in words.
  draw(values, { most = 0, text = String } = {}) {
    const known = values.filter((value) => value !== null);
    const top = Math.max(most, ...known, 1);
    const step = 120 / Math.max(1, values.length - 1);
    let pen = "M";
    let path = "";
    values.forEach((value, index) => {
      if (value === null) { pen = "M"; return; }
      path += `${pen}${(index * step).toFixed(1)} ${(26 - (24 * value) / top).toFixed(1)}`;
      pen = "L";
    });
    if (known.length === 1) path += "h1";
    this.path.setAttribute("d", path);
    const label = known.length ? `${this.label}: now ${text(known.at(-1))}, highest ${text(Math.max(...known))}` : `${this.label}: no values yet`;
    if (this.element.getAttribute("aria-label") !== label) this.element.setAttribute("aria-label", label);
  }
}
