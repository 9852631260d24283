// Preemptions under way as cards: who waits, for whom, at what cost, and which nodes were considered instead. Below them the
// nodes that were nominated for pods because the scheduler's sample missed them.
import { el, empty, tag } from "./dom.js";
import { SectionTable, podName } from "./sectiontable.js";
import { age, cpu, many, memory, number } from "./units.js";
import { whyLink } from "./why.js";

const PHASES = {
  agreed: ["kube-scheduler deletes its victims", "warn"],
  announcing: ["being announced", "warn"],
  evicting: ["victims are leaving", "warn"],
  opened: ["room is free; the pod may come", "good"],
  returned: ["the pod is being placed", "good"],
};
const SHOWN = 200;
const NAMED = 20;

class PreemptionsView {
  id = "preemptions";
  title = "Preemptions";
  about = "Who waits behind a gate until others have left";
  needs = ["preemptions", "nominations"];
  count = (state) => state.list("preemptions").total;

  build() {
    this.list = el("div");
    this.nominations = new SectionTable({
      section: "nominations",
      label: "Nominations",
      one: "nomination",
      nothing: "No nomination is under way.",
      columns: [
        { title: "Pod", width: "40%", text: podName },
        { title: "Nominated node", text: (entry) => entry.node },
        { title: "Nodes tried", class: "number", width: "8rem", text: (entry) => number(entry.tried) },
      ],
      link: (entry) => ["pods", podName(entry)],
      key: podName,
      words: (entry) => `${podName(entry)} ${entry.node}`,
    });
    return el("div", {}, this.list, el("h3", {}, "Nominations: the scheduler's sample missed the node that fits"), this.nominations.build());
  }

  draw(state) {
    const { total, entries } = state.list("preemptions");
    const focused = this.list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const more = total > SHOWN ? [el("p", { class: "dim" }, `${number(SHOWN)} of ${number(total)} are shown.`)] : [];
    this.list.replaceChildren(...more, entries.length ? el("div", { class: "cards roomy" }, ...entries.slice(0, SHOWN).map(card)) : empty("No preemption is under way."));
    if (focused) this.list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    this.nominations.draw(state);
  }
}

function card(entry) {
  const [phase, kind] = PHASES[entry.phase] ?? [entry.phase, "dim"];
  const waits = entry.waitingFor.slice(0, NAMED).flatMap((victim, index) => [index ? ", " : "", whyLink("pods", victim)]);
  const left = entry.waitingForTotal - Math.min(entry.waitingFor.length, NAMED);
  const rows = [
    ["Goes to", whyLink("nodes", entry.node)],
    ["Needs", `${cpu(entry.needs.cpu)} CPU, ${memory(entry.needs.memory)}`],
    ["Waits for", waits.length ? el("span", {}, ...waits, left ? ` and ${number(left)} more` : "") : "nobody any more"],
    ["Cost", entry.waitingForTotal ? `${many(entry.waitingForTotal, "pod")} with ${cpu(entry.frees.cpu)} CPU, ${memory(entry.frees.memory)}` : "all victims have left"],
    ["Instead", entry.others.length ? el("ul", { class: "plain" }, ...entry.others.map((other) => el("li", {}, other))) : "no other node had enough victims"],
  ];
  return el("article", { class: "card", "aria-label": `Preemption for ${podName(entry)}` },
    el("h3", {}, whyLink(entry.gateShut ? "gates" : "pods", podName(entry)), tag(phase, kind)),
    el("p", { class: "dim" }, `Priority ${number(entry.priority)}, began ${age(entry.began)} ago; ${entry.gateShut ? "its gate is shut" : "its gate is open"}`),
    el("dl", { class: "figures" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

export const preemptions = new PreemptionsView();
