// Live migrations that were decided or run, and of each crowded node the machines that may leave next.
import { el, empty, tag } from "./dom.js";
import { SectionTable, podName } from "./sectiontable.js";
import { cpu, memory, number } from "./units.js";
import { whyLink } from "./why.js";

const SHOWN = 200;

class MigrationsView {
  id = "migrations";
  title = "Migrations";
  about = "Virtual machines on the move, and the queue behind them";
  needs = ["migrations", "migrationQueue"];
  count = (state) => state.list("migrations").total;

  build() {
    this.running = el("div");
    this.queue = new SectionTable({
      section: "migrationQueue",
      label: "Migration queue",
      one: "machine",
      nothing: "No machine waits to leave its node.",
      columns: [
        { title: "Pod of the machine", width: "40%", text: podName },
        { title: "Node it may leave", text: (entry) => entry.node },
        { title: "Load, last minute", class: "number", width: "10rem", text: (entry) => (entry.load1Micro === null ? "not reported" : (entry.load1Micro / 1e6).toFixed(2)) },
      ],
      link: (entry) => ["migrations", podName(entry)],
      key: (entry) => `${podName(entry)} ${entry.node}`,
      words: (entry) => `${podName(entry)} ${entry.node}`,
    });
    return el("div", {}, el("h3", {}, "Decided or running"), this.running, el("h3", {}, "Queue: of each node, who leaves first"), this.queue.build());
  }

  draw(state) {
    const { total, entries } = state.list("migrations");
    const focused = this.running.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const more = total > SHOWN ? [el("p", { class: "dim" }, `${number(SHOWN)} of ${number(total)} are shown.`)] : [];
    this.running.replaceChildren(...more, entries.length ? el("div", { class: "cards" }, ...entries.slice(0, SHOWN).map(card)) : empty("No machine is migrating."));
    if (focused) this.running.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    this.queue.draw(state);
  }
}

function card(move) {
  const name = `${move.namespace}/${move.machine}`;
  const node = (found, otherwise) => (found ? whyLink("nodes", found) : otherwise);
  const rows = [
    ["From", node(move.source, "unknown")],
    ["To", node(move.targetNode, "not chosen yet")],
    ["Why", move.why || "the reason is over"],
    ["Cost", `${cpu(move.cpu)} CPU, ${memory(move.memory)} on both nodes meanwhile`],
  ];
  return el("article", { class: "card", "aria-label": `Migration of ${name}` },
    el("h3", {}, move.pod ? whyLink("migrations", move.pod, name) : name, tag(move.landed ? `${move.phase}, landed` : move.phase, move.landed ? "good" : "warn")),
    el("dl", { class: "figures" }, ...rows.flatMap(([title, value]) => [el("dt", {}, title), el("dd", {}, value)])));
}

export const migrations = new MigrationsView();
