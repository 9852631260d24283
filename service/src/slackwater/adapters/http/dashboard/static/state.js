// What the page knows: the last board with all later changes in it. Nodes are columns, as they come.
export const NOT_READY = 1;
export const CORDONED = 2;
export const QUARANTINED = 4;

export class State {
  constructor() {
    this.seq = 0;
    this.nodes = { names: [], groups: [], group: [], numbers: [], lines: [] };
    this.sections = {};
  }

  // Everything anew.
  board({ seq, nodes, ...sections }) {
    this.seq = seq;
    this.nodes = { ...nodes, lower: nodes.names.map((name) => name.toLowerCase()) };
    this.line = Object.fromEntries(nodes.lines.map((name, index) => [name, nodes.numbers[index]]));
    this.sections = sections;
    return new Set(["nodes", ...Object.keys(sections)]);
  }

  // What differs; false where a change was missed.
  change({ seq, nodes, ...sections }) {
    if (seq !== this.seq + 1) return false;
    this.seq = seq;
    nodes.numbers.forEach((values, line) => {
      const column = this.nodes.numbers[line];
      nodes.rows.forEach((row, index) => { column[row] = values[index]; });
    });
    Object.assign(this.sections, sections);
    return new Set([...(nodes.rows.length ? ["nodes"] : []), ...Object.keys(sections)]);
  }

  // Entries of a section, and how many there are in all.
  list(name) {
    return this.sections[name] ?? { total: 0, entries: [] };
  }

  groupOf(row) {
    return this.nodes.groups[this.nodes.group[row]] ?? "";
  }
}
