// Live migrations that were decided or run, and of each crowded node the machines that may leave next.
import { el } from "./dom.js";
import { SectionTable, podName } from "./sectiontable.js";
import { cpu, memory } from "./units.js";

class MigrationsView {
  id = "migrations";
  title = "Migrations";
  about = "Virtual machines on the move, and the queue behind them";
  needs = ["migrations", "migrationQueue"];
  count = (state) => state.list("migrations").total + state.list("migrationQueue").total;

  build() {
    this.running = new SectionTable({
      section: "migrations",
      label: "Migrations",
      one: "migration",
      nothing: "No machine is migrating.",
      columns: [
        { title: "Machine", width: "22%", text: (move) => `${move.namespace}/${move.machine}` },
        { title: "Phase", width: "8rem", text: (move) => (move.landed ? `${move.phase}, landed` : move.phase) },
        { title: "From", text: (move) => move.source ?? "unknown" },
        { title: "To", text: (move) => move.targetNode ?? "not chosen" },
        { title: "CPU", class: "number", width: "5rem", text: (move) => cpu(move.cpu) },
        { title: "Memory", class: "number", width: "7rem", text: (move) => memory(move.memory) },
      ],
      link: (move) => (move.pod ? ["migrations", move.pod] : null),
      key: podName,
      words: (move) => `${move.namespace}/${move.machine} ${move.source} ${move.targetNode} ${move.phase}`,
    });
    this.queue = new SectionTable({
      section: "migrationQueue",
      label: "Migration queue",
      one: "machine",
      nothing: "No machine waits to leave its node.",
      columns: [
        { title: "Pod of the machine", width: "40%", text: podName },
        { title: "Node it may leave", text: (entry) => entry.node },
        { title: "Load of the last minute", class: "number", width: "12rem", text: (entry) => (entry.load1Micro === null ? "not told" : (entry.load1Micro / 1e6).toFixed(2)) },
      ],
      link: (entry) => ["migrations", podName(entry)],
      key: (entry) => `${podName(entry)} ${entry.node}`,
      words: (entry) => `${podName(entry)} ${entry.node}`,
    });
    return el("div", {}, el("h3", {}, "Decided or running"), this.running.build(), el("h3", {}, "Queue: of each node, who leaves first"), this.queue.build());
  }

  draw(state) {
    this.running.draw(state);
    this.queue.draw(state);
  }
}

export const migrations = new MigrationsView();
