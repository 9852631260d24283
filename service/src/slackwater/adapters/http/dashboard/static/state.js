// What the page knows: the last board with all later changes in it. Nodes are columns, as they come.
export const NOT_READY = 1;
export const CORDONED = 2;
export const QUARANTINED = 4;
const MOST_DECISIONS = 1500;

export class State {
  constructor() {
    this.seq = 0;
    this.boards = 0;
    this.at = 0;
    this.nodes = { names: [], facets: {}, numbers: [], lines: [] };
    this.sections = {};
  }

  // Everything again.
  board({ seq, nodes, ...sections }) {
    this.seq = seq;
    this.boards += 1;
    this.at = Date.now();
    this.nodes = { ...nodes, lower: nodes.names.map((name) => name.toLowerCase()) };
    this.line = Object.fromEntries(nodes.lines.map((name, index) => [name, nodes.numbers[index]]));
    this.sections = sections;
    return new Set(["nodes", ...Object.keys(sections)]);
  }

  // What differs; false where a change was missed.
  change({ seq, nodes, timeline, ...sections }) {
    if (seq !== this.seq + 1) return false;
    this.seq = seq;
    this.at = Date.now();
    nodes.numbers.forEach((values, line) => {
      const column = this.nodes.numbers[line];
      nodes.rows.forEach((row, index) => { column[row] = values[index]; });
    });
    Object.assign(this.sections, sections);
    if (timeline) {
      sections.timeline = this.sections.timeline = { total: timeline.total, entries: [...timeline.entries, ...this.list("timeline").entries].slice(0, MOST_DECISIONS) };
    }
    return new Set([...(nodes.rows.length ? ["nodes"] : []), ...Object.keys(sections)]);
  }

  // Entries of a section, and how many there are in all.
  list(name) {
    return this.sections[name] ?? { total: 0, entries: [] };
  }

  // What a node says of its group, zone or type; empty if nothing.
  facetOf(facet, row) {
    const found = this.nodes.facets[facet];
    return found ? found.texts[found.of[row]] : "";
  }

  groupOf(row) {
    return this.facetOf("group", row);
  }
}
