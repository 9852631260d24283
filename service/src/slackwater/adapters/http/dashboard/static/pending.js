// Pending pods by group: how many, how old, the scheduler's reasons as chips, and what would help.
import { el, empty, setText, tag } from "./dom.js";
import { age, cpu, many, memory, number } from "./units.js";
import { whyLink } from "./why.js";

const SHOWN = 60;
const ASKED = 8;
const KEPT_MS = 60000;

// "0/9 nodes are available: 8 Insufficient cpu, 1 node(s) had untolerated taint(s)." as its reasons.
export function reasons(message) {
  const list = message?.match(/^\d+\/\d+ nodes are available: (.+?)\.?(?: preemption: .*)?$/)?.[1];
  return list ? list.split(/[,;] (?=\d)/) : message ? [message] : ["no scheduler has judged it yet"];
}

class PendingView {
  id = "pending";
  title = "Pending";
  about = "Pods without a node, the most important first";
  needs = ["pending"];
  count = (state) => state.list("pending").total;
  help = new Map();

  build() {
    this.search = el("input", { type: "search", placeholder: "part of a name or reason", oninput: () => this.draw(this.state) });
    this.shown = el("p", { class: "dim", role: "status" });
    this.list = el("div", { class: "cards wide" });
    this.daemons = el("div", { class: "cards wide" });
    this.daemonCount = el("summary", {});
    this.folded = el("details", { class: "folded", hidden: true }, this.daemonCount, this.daemons);
    return el("div", {}, el("div", { class: "tools", role: "search" }, el("label", {}, "Search", this.search), this.shown), this.list, this.folded);
  }

  draw(state) {
    this.state = state;
    const { total, groups, entries } = state.list("pending");
    const text = this.search.value.trim().toLowerCase();
    const found = entries.filter((entry) => !text || `${entry.namespace}/${entry.names.join(" ")} ${entry.owner} ${entry.message}`.toLowerCase().includes(text));
    const shown = found.slice(0, SHOWN);
    setText(this.shown, `${many(total, "pod")} in ${many(groups ?? entries.length, "group")}${found.length > SHOWN ? `; the first ${SHOWN} are shown` : ""}`);
    const lists = [this.list, this.daemons];
    const open = new Set(lists.flatMap((list) => [...list.querySelectorAll("details[open]")]).map((each) => each.dataset.key));
    const focused = lists.some((list) => list.contains(document.activeElement)) ? document.activeElement.getAttribute("href") : null;
    const daemons = shown.filter((entry) => entry.owner?.startsWith("DaemonSet "));
    const others = shown.filter((entry) => !daemons.includes(entry));
    this.list.replaceChildren(...(others.length ? others.map((entry) => this.card(entry, open)) : [empty(!total ? "No pod waits for a node." : found.length ? "Only pods of DaemonSets wait." : "No group matches.")]));
    this.daemons.replaceChildren(...daemons.map((entry) => this.card(entry, open)));
    this.folded.hidden = !daemons.length;
    setText(this.daemonCount, `${many(daemons.reduce((sum, entry) => sum + entry.count, 0), "pod")} of DaemonSets, in ${many(daemons.length, "group")}: each belongs to one node`);
    if (focused) this.folded.parentElement.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    this.askNext(others.slice(0, ASKED));
  }

  card(entry, open) {
    const name = `${entry.namespace}/${entry.name}`;
    const chips = entry.gates.length ? entry.gates.map((gate) => `gate ${gate}`) : reasons(entry.message);
    const help = this.help.get(name)?.text;
    const rest = entry.count > 1 ? el("details", { open: open.has(name), "data-key": name }, el("summary", {}, `${many(entry.count, "pod")}`), el("ul", { class: "plain" }, ...entry.names.map((each) => el("li", {}, whyLink("pods", `${entry.namespace}/${each}`))), entry.count > entry.names.length ? el("li", {}, `and ${number(entry.count - entry.names.length)} more`) : null)) : null;
    return el("article", { class: "card", "aria-label": `Pending: ${name}` },
      el("h3", {}, whyLink("pods", name), entry.count > 1 ? tag(`${number(entry.count)} pods${entry.owner ? ` of ${entry.owner}` : ""}`, "warn") : null),
      el("p", { class: "dim" }, `Waits ${age(entry.createdAt)}; asks ${cpu(entry.cpu)} CPU and ${memory(entry.memory)}; priority ${number(entry.priority)}; scheduler ${entry.scheduler}`),
      el("p", {}, ...chips.map((chip) => el("span", { class: "chip" }, chip))),
      help ? el("p", { class: "remedy" }, help) : null, rest);
  }

  // One question at a time, of the first groups in sight, each again after a minute.
  async askNext(entries) {
    if (this.asking || this.list.offsetParent === null) return;
    const entry = entries.find((each) => Date.now() - (this.help.get(`${each.namespace}/${each.name}`)?.at ?? 0) > KEPT_MS);
    if (!entry) return;
    this.asking = true;
    const name = `${entry.namespace}/${entry.name}`;
    let text = "";
    try {
      const answer = await fetch(`/explain/pods/${encodeURIComponent(entry.namespace)}/${encodeURIComponent(entry.name)}?format=json`);
      if (answer.ok) {
        const found = await answer.json();
        text = found.remedies.length ? `Would help: ${found.remedies[0].change}` : "No single change that was tried would help; open it for the reasons.";
      }
    } catch { text = ""; }
    if (this.help.size > 500) this.help.clear();
    this.help.set(name, { at: Date.now(), text });
    this.asking = false;
    this.draw(this.state);
  }
}

export const pending = new PendingView();
