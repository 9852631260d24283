// Puts the page together: views in the navigation, the stream, and redrawing of what is in sight.
import { byId, el, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { drains } from "./drains.js";
import { groups } from "./groups.js";
import { migrations } from "./migrations.js";
import { nodes } from "./nodes.js";
import { pending } from "./pending.js";
import { preemptions } from "./preemptions.js";
import { slack } from "./slack.js";
import { State } from "./state.js";
import { timeline } from "./timeline.js";
import { number } from "./units.js";
import { listen } from "./why.js";

const VIEWS = [nodes, pending, groups, drains, preemptions, migrations, slack, timeline];
const state = new State();
const shown = new Map();
let current = null;
let queued = new Set();

function build() {
  for (const view of VIEWS) {
    const count = el("span", { class: "count", hidden: !view.count });
    const link = el("a", { href: `#${view.id}` }, view.title, count);
    byId("views").append(el("li", {}, link));
    const section = el("section", { id: `view-${view.id}`, "aria-labelledby": `title-${view.id}`, hidden: true },
      el("div", { class: "head" }, el("h2", { id: `title-${view.id}` }, view.title), el("span", { class: "dim" }, view.about)));
    section.append(view.build(state));
    byId("main").append(section);
    shown.set(view.id, { view, link, count, section, stale: true });
  }
}

function select() {
  const found = shown.get(location.hash.slice(1)) ?? shown.get("nodes");
  for (const entry of shown.values()) {
    entry.section.hidden = entry !== found;
    if (entry === found) entry.link.setAttribute("aria-current", "page");
    else entry.link.removeAttribute("aria-current");
  }
  current = found;
  document.title = `${found.view.title} · Slackwater`;
  if (state.seq) draw(found);
}

function draw(entry) {
  entry.view.draw(state);
  entry.stale = false;
}

function drawn(parts) {
  for (const part of parts) queued.add(part);
  requestAnimationFrame(() => {
    if (!queued.size) return;
    const now = queued;
    queued = new Set();
    for (const entry of shown.values()) {
      if (!entry.view.needs.some((part) => now.has(part))) continue;
      entry.stale = true;
      if (entry.view.count) setText(entry.count, number(entry.view.count(state)));
    }
    if (current.stale) draw(current);
    facts();
    document.documentElement.dataset.seq = state.seq;
  });
}

function facts() {
  const status = state.sections.status ?? {};
  const loop = state.sections.autoscaler;
  const told = {
    Nodes: status.nodes, "Pods placed": status.claims, Pending: state.list("pending").total, Holds: status.holds,
    Attempts: status.schedulingAttempts, Failures: status.schedulingFailures, "Nodes in creation": loop ? loop.inCreation : null,
  };
  const entries = Object.entries(told).filter(([, value]) => value !== null && value !== undefined);
  if (byId("facts").childElementCount !== entries.length) {
    byId("facts").replaceChildren(...entries.map(([name]) => el("div", {}, el("dt", {}, name), el("dd"))));
  }
  entries.forEach(([, value], index) => setText(byId("facts").children[index].lastChild, number(value)));
  const silent = Object.entries(status.feeds ?? {}).filter(([, feed]) => !feed.alive).map(([name]) => name);
  const problem = status.settingsProblem ? ` A changed configuration was refused: ${status.settingsProblem}` : "";
  say(`Live. Version ${status.version}.${silent.length ? ` Nothing is heard of ${silent.join(", ")}.` : ""}${problem}`, Boolean(problem));
}

function say(text, bad) {
  byId("state").className = bad ? "bad" : "";
  setText(byId("state"), text);
}

build();
listen();
select();
window.addEventListener("hashchange", select);
new Feed(state, { drawn, trouble: (text) => say(text, true) }).open();
