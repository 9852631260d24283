// How much room is left: Total less Reserved and held, by node group; and the placeholders that keep room for pods to come.
import { el, setText } from "./dom.js";
import { CORDONED, NOT_READY } from "./state.js";
import { cpu, memory, number, percent } from "./units.js";

class SlackView {
  id = "slack";
  title = "Slack";
  about = "Room that nothing is promised of, on nodes that take pods";
  needs = ["nodes", "autoscaler"];

  build() {
    const head = ["Group", "Nodes", "Free CPU", "of Total", "Free memory", "of Total", "Largest free CPU", "Largest free memory"];
    this.body = el("tbody");
    this.note = el("p", { class: "dim" });
    return el("div", {}, el("div", { class: "scroll" }, el("table", { "aria-label": "Free room by node group" }, el("thead", {}, el("tr", {}, ...head.map((title, index) => el("th", { scope: "col", class: index ? "number" : null }, title)))), this.body)), this.note);
  }

  draw(state) {
    if (!state.line) return;
    const sums = new Map();
    state.nodes.names.forEach((_, row) => {
      if (state.line.flags[row] & (NOT_READY | CORDONED)) return;
      const name = state.groupOf(row) || "no group";
      const sum = sums.get(name) ?? { nodes: 0, cpu: 0, memory: 0, cpuTotal: 0, memoryTotal: 0, cpuMost: 0, memoryMost: 0 };
      sum.nodes += 1;
      for (const resource of ["cpu", "memory"]) {
        const total = state.line[`${resource}.total`][row];
        const free = Math.max(0, total - state.line[`${resource}.reserved`][row] - state.line[`${resource}.held`][row]);
        sum[resource] += free;
        sum[`${resource}Total`] += total;
        sum[`${resource}Most`] = Math.max(sum[`${resource}Most`], free);
      }
      sums.set(name, sum);
    });
    const rows = [...sums].sort(([one], [other]) => (one < other ? -1 : 1));
    while (this.body.rows.length > rows.length) this.body.lastChild.remove();
    rows.forEach(([name, sum], index) => {
      const row = this.body.rows[index] ?? this.body.appendChild(el("tr", {}, el("th", { scope: "row" }), ...Array.from({ length: 7 }, () => el("td", { class: "number" }))));
      const told = [name, number(sum.nodes), cpu(sum.cpu), percent(sum.cpu, sum.cpuTotal), memory(sum.memory), percent(sum.memory, sum.memoryTotal), cpu(sum.cpuMost), memory(sum.memoryMost)];
      told.forEach((text, cell) => setText(row.cells[cell], text));
    });
    const unneeded = Object.values(state.sections.autoscaler?.scaleDown?.unneeded ?? {}).reduce((sum, count) => sum + count, 0);
    setText(this.note, `Cordoned and unready nodes are left out. ${number(unneeded)} nodes could go together now, by the autoscaler's last loop. This version's loop keeps no placeholders; "slackwater simulate scale-up" shows where they would stand.`);
  }
}

export const slack = new SlackView();
