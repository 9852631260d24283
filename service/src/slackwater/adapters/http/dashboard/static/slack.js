// How much room is left: Total less Reserved and held, by node group; and the placeholders that keep room for pods to come.
import { el, setText } from "./dom.js";
import { SectionTable } from "./sectiontable.js";
import { CORDONED, NOT_READY, QUARANTINED } from "./state.js";
import { cpu, many, memory, number, percent } from "./units.js";

const MOST = 2000;
const HEAD = ["Group", "Nodes", "Free CPU", "CPU, share", "Free memory", "memory, share", "Largest free CPU", "Largest free memory"];

function table({ list, link = () => null, ...rest }) {
  const entries = (state) => state.sections.autoscaler?.slack?.[list] ?? [];
  const words = (entry) => Object.values(entry).filter((value) => typeof value === "string").join(" ");
  return new SectionTable({ ...rest, link, words, key: (entry) => entry.name, list: (state) => ({ total: entries(state).length, entries: entries(state).slice(0, MOST) }) });
}

class SlackView {
  id = "slack";
  title = "Slack";
  about = "Room that nothing is promised of, on nodes that take pods";
  needs = ["nodes", "autoscaler"];

  build() {
    this.body = el("tbody");
    this.note = el("p", { class: "dim" });
    this.sources = table({
      list: "sources",
      label: "Why room is kept",
      one: "source",
      nothing: "No room is kept for pods to come.",
      columns: [
        { title: "Source", width: "34%", text: (source) => source.name },
        { title: "CPU", class: "number", text: (source) => cpu(source.amount.cpu) },
        { title: "Memory", class: "number", text: (source) => memory(source.amount.memory) },
        { title: "Placeholders", class: "number", text: (source) => number(source.placeholders) },
        { title: "in place", class: "number", text: (source) => number(source.placed) },
        { title: "coming", class: "number", text: (source) => number(source.coming) },
        { title: "without a place", class: "number", text: (source) => number(source.homeless) },
      ],
    });
    this.slos = table({
      list: "startTimeSLOs",
      label: "Start-time SLOs",
      one: "SLO",
      nothing: "Nothing is promised about how soon pods start.",
      columns: [
        { title: "SLO", text: (each) => each.name },
        { title: "Promised", width: "16%", text: (each) => `${Number((100 * each.share).toFixed(3))} % within ${each.withinSeconds} s` },
        { title: "Kept, last day", class: "number", text: (each) => (each.keptShare === null ? "no pods came" : `${(100 * each.keptShare).toFixed(1)} %`) },
        { title: "in time", class: "number", text: (each) => number(each.inTime) },
        { title: "late", class: "number", text: (each) => number(each.late) },
        { title: "waiting", class: "number", text: (each) => number(each.waiting) },
        { title: "Room for", class: "number", text: (each) => many(each.room, "pod") },
        { title: "A node takes", class: "number", text: (each) => `${number(each.leadSeconds)} s` },
        { title: "Told by", class: "wraps", width: "22%", text: (each) => each.problem ?? `${each.way}; more is needed in ${each.exceededPercent} % of it` },
      ],
    });
    this.places = table({
      list: "placeholders",
      label: "Placeholders",
      one: "placeholder",
      nothing: "There are no placeholders.",
      columns: [
        { title: "Node", width: "26%", text: (each) => each.node ?? "nowhere yet" },
        { title: "Placeholder", text: (each) => each.name },
        { title: "Source", text: (each) => each.source },
        { title: "Group that grows for it", text: (each) => each.group ?? "–" },
        { title: "CPU", class: "number", width: "6rem", text: (each) => cpu(each.cpu) },
        { title: "Memory", class: "number", width: "7rem", text: (each) => memory(each.memory) },
      ],
      link: (each) => (each.node ? ["nodes", each.node] : null),
    });
    return el("div", {}, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Free room, scrollable" }, el("table", { class: "free", "aria-label": "Free room by node group" }, el("thead", {}, el("tr", {}, ...HEAD.map((title, index) => el("th", { scope: "col", class: index ? "number" : null }, title)))), this.body)), this.note, el("h3", {}, "Room kept for pods to come, by source"), this.sources.build(), el("h3", {}, "Start-time SLOs"), this.slos.build(), el("h3", {}, "Placeholders: where that room is"), this.places.build());
  }

  draw(state) {
    if (!state.line) return;
    this.sources.draw(state);
    this.slos.draw(state);
    this.places.draw(state);
    const sums = new Map();
    let left = 0;
    state.nodes.names.forEach((_, row) => {
      if (state.line.flags[row] & (NOT_READY | CORDONED | QUARANTINED)) {
        left += 1;
        return;
      }
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
      const row = this.body.rows[index] ?? this.body.appendChild(el("tr", {}, el("th", { scope: "row" }), ...HEAD.slice(1).map((title) => el("td", { class: "number", "data-label": title }))));
      const texts = [name, number(sum.nodes), cpu(sum.cpu), percent(sum.cpu, sum.cpuTotal), memory(sum.memory), percent(sum.memory, sum.memoryTotal), cpu(sum.cpuMost), memory(sum.memoryMost)];
      texts.forEach((text, cell) => setText(row.cells[cell], text));
    });
    const unneeded = Object.values(state.sections.autoscaler?.scaleDown?.unneeded ?? {}).reduce((sum, count) => sum + count, 0);
    setText(this.note, `${many(left, "node")} left out: cordoned, unready or quarantined. By the autoscaler's last loop ${many(unneeded, "node")} could go together now, and ${many(state.sections.autoscaler?.slack?.nodesForSlackAlone ?? 0, "node")} stood for slack alone.`);
  }
}

export const slack = new SlackView();
