// Pods without a place, and what was last said of each; above them how many share a reason.
import { el, setText } from "./dom.js";
import { SectionTable, podName } from "./sectiontable.js";
import { cpu, many, memory, number } from "./units.js";

const said = (pod) => (pod.gates.length ? `behind its gates: ${pod.gates.join(", ")}` : pod.message ?? "no scheduler has judged it yet");

class PendingView {
  id = "pending";
  title = "Pending pods";
  about = "The most important first; each leads to what would help";
  needs = ["pending"];
  count = (state) => state.list("pending").total;

  build() {
    this.table = new SectionTable({
      section: "pending",
      label: "Pending pods",
      one: "pod",
      nothing: "No pod waits for a place.",
      columns: [
        { title: "Pod", width: "24%", text: podName },
        { title: "Priority", class: "number", width: "6rem", text: (pod) => number(pod.priority) },
        { title: "CPU", class: "number", width: "5rem", text: (pod) => cpu(pod.cpu) },
        { title: "Memory", class: "number", width: "6.5rem", text: (pod) => memory(pod.memory) },
        { title: "What the scheduler last said", text: said },
      ],
      link: (pod) => ["pods", podName(pod)],
      key: podName,
      words: (pod) => `${podName(pod)} ${pod.scheduler} ${said(pod)}`,
    });
    this.reasons = el("div");
    return el("div", {}, this.reasons, this.table.build());
  }

  draw(state) {
    this.table.draw(state);
    const counts = new Map();
    for (const pod of state.list("pending").entries) counts.set(said(pod), (counts.get(said(pod)) ?? 0) + 1);
    const most = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 5);
    const text = most.map(([reason, count]) => `${many(count, "pod")}: ${reason}`);
    if (this.told === text.join("\n")) return;
    this.told = text.join("\n");
    this.reasons.replaceChildren(...(counts.size > 1 ? [el("details", {}, el("summary", {}, `${counts.size} different reasons`), el("ul", { class: "plain" }, ...text.map((line) => el("li", {}, line))))] : []));
    if (counts.size <= 1) setText(this.reasons, "");
  }
}

export const pending = new PendingView();
