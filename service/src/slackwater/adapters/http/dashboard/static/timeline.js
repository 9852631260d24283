// What was decided, the newest first, and what became of it.
import { el } from "./dom.js";
import { SectionTable } from "./sectiontable.js";
import { clock } from "./units.js";

class TimelineView {
  id = "timeline";
  title = "Time line";
  about = "The newest decisions of each kind, and what became of them";
  needs = ["timeline"];
  count = (state) => state.list("timeline").total;

  build() {
    this.table = new SectionTable({
      section: "timeline",
      label: "Decisions",
      one: "decision",
      rest: "the newest of each kind are kept",
      nothing: "Nothing was decided since the start.",
      columns: [
        { title: "Object", width: "28%", text: (entry) => entry.name },
        { title: "When", width: "7rem", text: (entry) => clock(entry.at) },
        { title: "Decision", width: "9rem", text: (entry) => entry.kind },
        { title: "Result", width: "7rem", text: (entry) => ({ done: "done", refused: "refused", again: "tried again", unknown: "no answer" })[entry.verdict] ?? entry.verdict },
        { title: "What", text: (entry) => entry.text },
      ],
      link: (entry) => (entry.about ? [entry.about, entry.name] : null),
      key: (entry) => entry.number,
      words: (entry) => `${entry.name} ${entry.kind} ${entry.verdict} ${entry.text}`,
    });
    return el("div", {}, this.table.build());
  }

  draw(state) {
    this.table.draw(state);
  }
}

export const timeline = new TimelineView();
