// The explanation of one object, in a dialog over the page. The links work without it too: they lead to the same as JSON.
import { byId, el, tag } from "./dom.js";
import { amount, many } from "./units.js";

let asked = 0;

export function whyPath(kind, name) {
  return `/explain/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

// A link to why an object is as it is. `name` is a pod's as namespace/name.
export function whyLink(kind, name, text = name) {
  const link = el("a", { class: "why" }, text);
  pointAt(link, kind, name);
  return link;
}

export function pointAt(link, kind, name) {
  link.href = whyPath(kind, name);
  link.dataset.why = `${kind.replace(/s$/, "")} ${name}`;
}

export function listen() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-why]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    ask(link.dataset.why, link.getAttribute("href"));
  });
}

async function ask(title, path) {
  const mine = ++asked;
  const dialog = byId("why");
  byId("why-title").textContent = `Why: ${title}`;
  byId("why-body").replaceChildren(el("p", { class: "dim" }, "Asking…"));
  if (!dialog.open) dialog.showModal();
  let found;
  try {
    const answer = await fetch(path);
    const told = await answer.json();
    found = answer.ok ? explanation(told, path) : [el("p", {}, told.detail ?? `The service answered ${answer.status}.`)];
  } catch (error) {
    found = [el("p", {}, `The service does not answer: ${error.message}`)];
  }
  if (mine === asked) byId("why-body").replaceChildren(...found);
}

function explanation(told, path) {
  const parts = [el("p", {}, "It is ", el("strong", {}, told.state), ".")];
  if (told.reasons.length) parts.push(el("h3", {}, "Reasons"), el("ul", {}, ...told.reasons.map(reason)));
  if (told.remedies.length) {
    parts.push(el("h3", {}, "What would help"), el("ul", {}, ...told.remedies.map((remedy) => el("li", {}, remedy.change, tag("checked in the simulator", "good")))));
  }
  for (const set of told.minimal) {
    parts.push(el("h3", {}, `In the way at ${set.where}: all of`), el("ul", {}, ...set.blockers.map(reason)), el("p", {}, `Helps: ${set.remedy.change}`));
  }
  for (const group of told.groups ?? []) {
    parts.push(el("h3", {}, `Node group ${group.group}`, tag(group.helps ? "helps" : "does not help", group.helps ? "good" : "warn")), el("ul", {}, ...group.reasons.map(reason)));
  }
  const facts = Object.entries(told.facts ?? {});
  if (facts.length) parts.push(el("h3", {}, "Figures"), el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))])));
  for (const note of told.notes ?? []) parts.push(el("p", { class: "notes" }, note));
  parts.push(el("p", {}, el("a", { href: path }, "As JSON")));
  return parts;
}

function reason({ code, plugin, text, detail, nodes, short, objects, closest }) {
  const lacking = Object.entries(short ?? {}).map(([unit, value]) => `${unit === "milliCPU" ? amount.cpu(value) : unit === "bytes" ? amount.memory(value) : value} ${unit === "milliCPU" ? "CPU" : unit === "bytes" ? "memory" : unit} short`);
  const more = [detail, nodes ? `on ${many(nodes, "node")}` : "", ...lacking, closest ? `closest: ${closest}` : "", (objects ?? []).join(", ")].filter(Boolean);
  return el("li", {}, el("code", {}, code), ` ${text}`, more.length ? el("span", { class: "dim" }, ` (${more.join("; ")})`) : null, el("span", { class: "dim" }, ` ${plugin}`));
}
