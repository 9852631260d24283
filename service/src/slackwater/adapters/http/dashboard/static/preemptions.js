// Pods that others have to leave for, whether their gate is shut, and for whom each waits; and nominations under way.
import { el } from "./dom.js";
import { SectionTable, podName } from "./sectiontable.js";
import { duration, number } from "./units.js";

const PHASES = {
  agreed: "kube-scheduler preempts",
  announcing: "being announced",
  evicting: "victims are leaving",
  opened: "room is made",
  returned: "about to be bound",
};
const waiting = ({ waitingFor, waitingForTotal }) =>
  waitingForTotal === 0 ? "nobody" : waitingFor.join(", ") + (waitingForTotal > waitingFor.length ? ` and ${waitingForTotal - waitingFor.length} more` : "");

class PreemptionsView {
  id = "preemptions";
  title = "Preemptions";
  about = "Who waits behind a gate until others have left";
  needs = ["preemptions", "nominations"];
  count = (state) => state.list("preemptions").total;

  build() {
    this.table = new SectionTable({
      section: "preemptions",
      label: "Preemptions",
      one: "preemption",
      nothing: "No pod preempts others.",
      columns: [
        { title: "Preemptor", width: "22%", text: podName },
        { title: "Gate", width: "5rem", text: (entry) => (entry.gateShut ? "shut" : "open") },
        { title: "Phase", width: "12rem", text: (entry) => PHASES[entry.phase] ?? entry.phase },
        { title: "Node", width: "14%", text: (entry) => entry.node },
        { title: "Priority", class: "number", width: "6rem", text: (entry) => number(entry.priority) },
        { title: "Waits for", text: waiting },
        { title: "Since", class: "number", width: "7rem", text: (entry) => duration(entry.since) },
      ],
      link: (entry) => ["gates", podName(entry)],
      key: podName,
      words: (entry) => `${podName(entry)} ${entry.node} ${entry.phase} ${waiting(entry)}`,
    });
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
    return el("div", {}, this.table.build(), el("h3", {}, "Nominations: the scheduler's sample missed the node that fits"), this.nominations.build());
  }

  draw(state) {
    this.table.draw(state);
    this.nominations.draw(state);
  }
}

export const preemptions = new PreemptionsView();
