// Puts the page together: views by their address (#/view/rest?filters), the stream, and redrawing of what is in sight.
import { byId, el, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { drains } from "./drains.js";
import { groups } from "./groups.js";
import { listenToKeys } from "./keys.js";
import { migrations } from "./migrations.js";
import { nodes } from "./nodes.js";
import { overview } from "./overview.js";
import { pending } from "./pending.js";
import { preemptions } from "./preemptions.js";
import { slack } from "./slack.js";
import { State } from "./state.js";
import { timeline } from "./timeline.js";
import { age, number } from "./units.js";
import { why } from "./why.js";

const VIEWS = [overview, nodes, pending, groups, drains, preemptions, migrations, slack, timeline, why];
const STALE_SECONDS = 5;
const state = new State();
const shown = new Map();
let current = null;
let queued = new Set();
let trouble = "";

function build() {
  for (const view of VIEWS) {
    const count = el("span", { class: "count", hidden: !view.count });
    const link = el("a", { href: `#/${view.id}` }, view.title, count);
    if (!view.hidden) byId("views").append(el("li", {}, link));
    const head = view.id === "why" || view.id === "overview" ? el("h2", { id: `title-${view.id}`, class: "unseen" }, view.title) : el("div", { class: "head" }, el("h2", { id: `title-${view.id}` }, view.title), el("span", { class: "dim" }, view.about));
    const section = el("section", { id: `view-${view.id}`, "aria-labelledby": `title-${view.id}`, hidden: true }, head);
    section.append(view.build(state));
    byId("main").append(section);
    shown.set(view.id, { view, link, count, section, stale: true });
  }
}

// The address as view, rest of the path, and filters. Addresses without the slash are those of earlier versions.
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [id, ...rest] = path.split("/");
  return { found: shown.get(id) ?? shown.get("overview"), rest: rest.join("/"), query: new URLSearchParams(query) };
}

function select() {
  const { found } = address();
  for (const entry of shown.values()) {
    entry.section.hidden = entry !== found;
    if (entry === found) entry.link.setAttribute("aria-current", "page");
    else entry.link.removeAttribute("aria-current");
  }
  if (current && current !== found) current.view.leave?.();
  current = found;
  document.title = `${found.view.title} · Slackwater`;
  found.link.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  if (state.seq || found.view === why) draw(found);
}

function draw(entry) {
  const { rest, query } = address();
  entry.view.draw(state, rest, query);
  entry.stale = false;
}

function drawn(parts) {
  trouble = "";
  for (const part of parts) queued.add(part);
  requestAnimationFrame(() => {
    if (!queued.size) return;
    const began = performance.now();
    const now = queued;
    queued = new Set();
    for (const entry of shown.values()) {
      if (!entry.view.needs.some((part) => now.has(part))) continue;
      entry.stale = true;
      if (entry.view.count) setText(entry.count, number(entry.view.count(state)));
    }
    if (current.stale) draw(current);
    say();
    document.documentElement.dataset.seq = state.seq;
    document.documentElement.dataset.took = String(Math.round(performance.now() - began));
  });
}

// What the line at the top says. The page greys out if it is old; the state that it shows is then the last one known.
function say() {
  const old = state.seq > 0 && Date.now() - state.at > STALE_SECONDS * 1000 && trouble;
  document.body.classList.toggle("stale", Boolean(old));
  const { status, health } = state.sections;
  byId("pause").hidden = !health?.paused;
  setText(byId("pause"), health?.paused ?? "");
  const text = old ? `${trouble} Last update ${age(state.at / 1000)} ago.` : trouble || (status ? `Live, version ${status.version}${standby(status.leader)}` : "Connecting…");
  byId("state").className = trouble ? "bad" : "";
  setText(byId("state"), text);
}

// Of several replicas each shows what it knows itself; only the leader decides, and knows what nodes cost.
const standby = ({ leads, holder }) => (leads ? "" : `; a standby, ${holder || "nobody"} leads`);

build();
select();
listenToKeys();
window.addEventListener("hashchange", select);
setInterval(say, 1000);
new Feed(state, { drawn, trouble: (text) => { trouble = text; say(); } }).open();
