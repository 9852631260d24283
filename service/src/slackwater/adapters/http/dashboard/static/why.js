// The page of one object, #/why/pod/namespace/name: the explanation as the service renders it, and what happened before.
import { el, tag } from "./dom.js";
import { age, clock, number } from "./units.js";

const PATHS = { pod: "pods", node: "nodes", group: "groups", permit: "permits", migration: "migrations", gate: "gates" };
const STORIES = { pod: "pods", permit: "pods", migration: "pods", gate: "pods", node: "nodes", group: "groups" };
const encoded = (name) => name.split("/").map(encodeURIComponent).join("/");

export const whyHash = (kind, name) => `#/why/${kind.replace(/s$/, "")}/${encoded(name)}`;

export function goWhy(kind, name) {
  location.hash = whyHash(kind, name);
}

// A link to why an object is as it is. `name` is a pod's as namespace/name.
export function whyLink(kind, name, text = name) {
  const link = el("a", { class: "why" }, text);
  pointAt(link, kind, name);
  return link;
}

export function pointAt(link, kind, name) {
  link.href = whyHash(kind, name);
}

class WhyView {
  id = "why";
  title = "Why";
  about = "";
  needs = [];
  hidden = true;

  build() {
    this.name = el("h2", {});
    this.body = el("div", { "aria-live": "polite" });
    this.story = el("div");
    return el("div", { class: "why-page" }, this.name, this.body, this.story);
  }

  draw(_state, rest) {
    if (this.rest === rest) return;
    this.rest = rest;
    const [kind, ...parts] = rest.split("/").map(decodeURIComponent);
    this.ask(kind, parts.join("/"), rest);
  }

  leave() {
    this.rest = null;
  }

  async ask(kind, name, rest) {
    this.name.textContent = `${kind} ${name}`;
    this.body.replaceChildren(el("p", { class: "dim" }, "Asking…"));
    this.story.replaceChildren();
    const [found, steps, past] = await Promise.all([this.explained(kind, name), this.steps(kind, name), this.past(kind, name)]);
    if (this.rest !== rest) return;
    this.body.replaceChildren(...found);
    this.story.replaceChildren(
      ...past,
      el("h3", {}, "Decisions since the service started"),
      steps.length ? el("ol", { class: "story" }, ...steps.map(step)) : el("p", { class: "dim" }, "None was noted. The newest 500 of each kind are kept."));
  }

  // What the persisted history says, which restarts do not end. Only pods and nodes have one.
  async past(kind, name) {
    const path = { pods: "pods", nodes: "nodes" }[STORIES[kind]];
    if (!path) return [];
    const [answer, status] = await Promise.all([answered(`/history/${path}/${encoded(name)}`), answered("/statusz")]);
    const head = el("h3", {}, "What happened");
    if (!answer) return [head, el("p", { class: "dim" }, "The service does not answer about the past.")];
    const started = status ? Date.now() / 1000 - status.uptimeSeconds : null;
    const notes = answer.notes.map((note) => el("p", { class: "dim" }, note));
    if (!answer.entries.length) return [head, el("p", { class: "dim" }, `Nothing is kept about it. ${reach(answer.reaches)}`), ...notes];
    return [head, el("ol", { class: "story", "data-history": "" }, ...withStart(answer.entries, started)), el("p", { class: "dim" }, `Kept over restarts. ${reach(answer.reaches)}`), ...notes];
  }

  async explained(kind, name) {
    try {
      const answer = await fetch(`/explain/${PATHS[kind] ?? kind}/${encoded(name)}`, { headers: { accept: "text/html" } });
      if (!answer.ok) return [el("p", { class: "sentence" }, (await answer.json().catch(() => ({}))).detail ?? `The service answered ${answer.status}.`)];
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      return [document.adoptNode(page.getElementById("explanation"))];
    } catch {
      return [el("p", { class: "sentence" }, "The service does not answer.")];
    }
  }

  async steps(kind, name) {
    const answer = await fetch(`/dashboard/story/${STORIES[kind] ?? kind}/${encoded(name)}`).catch(() => null);
    return answer?.ok ? (await answer.json()).steps : [];
  }
}

async function answered(path) {
  const answer = await fetch(path).catch(() => null);
  return answer?.ok ? answer.json() : null;
}

// The entries as rows; a line stands where the service started.
function withStart(entries, started) {
  const rows = entries.map((entry) => [Date.parse(entry.at) / 1000, happened(entry)]);
  if (started !== null && rows.some(([at]) => at < started)) {
    rows.splice(rows.findLastIndex(([at]) => at < started) + 1, 0, [started, el("li", { class: "dim" }, moment(started), " The service started.")]);
  }
  return rows.map(([, row]) => row);
}

// `text` has the reason. `pod` and `node` are links; on the page of a node the pod says whom it was about.
function happened(entry) {
  return el("li", {}, moment(Date.parse(entry.at) / 1000), " ", entry.pod ? whyLink("pod", entry.pod) : whyLink("node", entry.node), ` ${entry.text}`, " ", tag(`by ${entry.by}`));
}

const moment = (at) => el("time", { class: "dim" }, `${day(at)}${clock(at)}, ${age(at)} ago`);
const day = (at) => (Date.now() / 1000 - at < 43_200 ? "" : `${new Date(at * 1000).toLocaleDateString("en", { day: "numeric", month: "short" })} `);

// From when on everything is kept; empty if from the beginning.
function reach(reaches) {
  const oldest = (at) => `${day(Date.parse(at) / 1000)}${clock(Date.parse(at) / 1000)}`;
  const parts = [["disturbances", reaches.acts], ["waits", reaches.waits]].filter(([, at]) => at).map(([what, at]) => `${what} since ${oldest(at)}`);
  return parts.length ? `Older ones were dropped: ${parts.join(", ")} are complete.` : "";
}

// How often a decision was made that every loop makes again, and until when.
export const again = (entry) => (entry.times > 1 ? el("span", { class: "dim" }, ` ${number(entry.times)} times, until ${clock(entry.until)}`) : null);

function step(entry) {
  const to = entry.about ? whyLink(entry.about, entry.name) : entry.name;
  return el("li", {}, el("time", { class: "dim" }, `${clock(entry.at)}, ${age(entry.at)} ago`), " ", el("strong", {}, entry.kind), " ", to, " ", entry.text, entry.verdict === "done" ? null : entry.verdict === "withheld" ? tag("not done", "dim") : tag(entry.verdict, "warn"), again(entry),
    entry.instead ? el("div", { class: "dim" }, `Instead: ${entry.instead}`) : null);
}

export const why = new WhyView();
