// Every node as two bars. Search, filters and order work on columns, so that thousands of nodes stay quick.
import { ResourceBar, legend } from "./bars.js";
import { el, setText, tag } from "./dom.js";
import { LongTable } from "./longtable.js";
import { CORDONED, NOT_READY, QUARANTINED } from "./state.js";
import { number } from "./units.js";
import { pointAt } from "./why.js";

const FIELDS = ["total", "watermark", "reserved", "buffer", "capacityPressure", "held"];
const share = (state, resource) => (row) => state.line[`${resource}.reserved`][row] / Math.max(1, state.line[`${resource}.total`][row]);
const either = (state, name, test) => (row) => ["cpu", "memory"].some((resource) => test(state.line[`${resource}.${name}`][row], row, resource));

const STATES = {
  "": ["all", () => () => true],
  "not-ready": ["not ready", (state) => (row) => Boolean(state.line.flags[row] & NOT_READY)],
  cordoned: ["cordoned", (state) => (row) => Boolean(state.line.flags[row] & CORDONED)],
  quarantined: ["quarantined", (state) => (row) => Boolean(state.line.flags[row] & QUARANTINED)],
  watermark: ["above the Watermark", (state) => either(state, "reserved", (value, row, resource) => value > state.line[`${resource}.watermark`][row])],
  pressure: ["under CapacityPressure", (state) => either(state, "capacityPressure", (value) => value > 0)],
  over: ["over Total", (state) => either(state, "reserved", (value, row, resource) => value > state.line[`${resource}.total`][row])],
  empty: ["without pods", (state) => (row) => state.line.pods[row] === 0],
};
const ORDERS = {
  name: ["name", null],
  cpu: ["CPU, fullest first", (state) => share(state, "cpu")],
  memory: ["memory, fullest first", (state) => share(state, "memory")],
  pods: ["pods, most first", (state) => (row) => state.line.pods[row]],
};

const options = (from) => Object.entries(from).map(([value, [text]]) => el("option", { value }, text));

class NodesView {
  id = "nodes";
  title = "Nodes";
  about = "What is promised on each node";
  needs = ["nodes", "use"];

  build(state) {
    this.state = state;
    const again = () => this.filtered();
    this.search = el("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: again, placeholder: "part of a name" });
    this.group = el("select", { onchange: again }, el("option", { value: "" }, "all"));
    this.kind = el("select", { onchange: again }, ...options(STATES));
    this.order = el("select", { onchange: again }, ...options(ORDERS));
    this.shown = el("p", { class: "dim", id: "nodes-shown", role: "status" });
    this.long = new LongTable({
      label: "Nodes",
      columns: [{ title: "Node", width: "25%" }, { title: "Group", width: "19%" }, { title: "CPU reserved of Total" }, { title: "Memory reserved of Total" }, { title: "Pods", class: "number", width: "5.5rem" }],
      make: () => this.row(),
      key: (row) => this.state.nodes.names[row],
    });
    return el("div", {},
      el("div", { class: "tools", role: "search", "aria-label": "Nodes" }, el("label", {}, "Search", this.search), el("label", {}, "Group", this.group), el("label", {}, "Show", this.kind), el("label", {}, "Order", this.order), this.shown),
      legend(), this.long.element);
  }

  count = (state) => state.nodes.names.length;

  // Filters of the address are taken once; changed filters are written back there.
  takeFilters(query) {
    const text = query.toString();
    if (this.address === text) return;
    this.address = text;
    this.search.value = query.get("q") ?? "";
    [this.wanted, this.known] = [query.get("group") ?? "", null]; // the address may name a group before groups are known
    if (STATES[query.get("show") ?? ""]) this.kind.value = query.get("show") ?? "";
    if (ORDERS[query.get("order") ?? "name"]) this.order.value = query.get("order") ?? "name";
  }

  filtered() {
    const query = new URLSearchParams();
    this.wanted = this.group.value;
    if (this.search.value) query.set("q", this.search.value);
    if (this.group.value) query.set("group", this.group.value);
    if (this.kind.value) query.set("show", this.kind.value);
    if (this.order.value !== "name") query.set("order", this.order.value);
    this.address = query.toString();
    history.replaceState(null, "", `#/nodes${this.address ? `?${this.address}` : ""}`);
    this.draw(this.state);
  }

  draw(state, _rest, query) {
    if (query) this.takeFilters(query);
    this.groups(state);
    const rows = this.rows(state);
    setText(this.shown, `${number(rows.length)} of ${number(state.nodes.names.length)} nodes`);
    this.long.show(rows);
  }

  rows(state) {
    const { names, lower } = state.nodes;
    if (!state.line) return [];
    const { texts: groups, of: group } = state.nodes.facets.group;
    const text = this.search.value.trim().toLowerCase();
    const wanted = this.group.value === "" ? -1 : groups.indexOf(this.group.value);
    const test = STATES[this.kind.value][1](state);
    const rows = [];
    for (let row = 0; row < names.length; row++) {
      if (lower[row].includes(text) && (wanted < 0 || group[row] === wanted) && test(row)) rows.push(row);
    }
    const by = ORDERS[this.order.value][1]?.(state);
    const compare = (one, other) => (names[one] < names[other] ? -1 : 1);
    if (!by) return rows.sort(compare);
    const keys = rows.map(by);
    return rows.map((row, index) => index).sort((one, other) => keys[other] - keys[one] || compare(rows[one], rows[other])).map((index) => rows[index]);
  }

  groups(state) {
    const names = state.nodes.facets.group?.texts.filter(Boolean) ?? [];
    if (this.known === names.join()) return;
    this.known = names.join();
    this.group.replaceChildren(el("option", { value: "" }, "all"), ...names.map((name) => el("option", { value: name }, name)));
    this.group.value = names.includes(this.wanted) ? this.wanted : "";
  }

  row() {
    const link = el("a", { class: "why" });
    const marks = el("span");
    const group = el("td", { "data-label": "Group" });
    const bars = { cpu: new ResourceBar("cpu"), memory: new ResourceBar("memory") };
    const pods = el("td", { class: "number", "data-label": "Pods" });
    const row = el("tr", {}, el("th", { scope: "row" }, el("span", { class: "marked" }, link, marks)), group, el("td", { class: "whole", "data-label": "CPU" }, bars.cpu.element), el("td", { class: "whole", "data-label": "Memory" }, bars.memory.element), pods);
    let flags = -1;
    const fill = (at) => {
      const { state } = this;
      if (link.textContent !== state.nodes.names[at]) {
        setText(link, state.nodes.names[at]);
        link.title = state.nodes.names[at];
        pointAt(link, "nodes", state.nodes.names[at]);
      }
      if (flags !== state.line.flags[at]) {
        flags = state.line.flags[at];
        marks.replaceChildren(
          ...(flags & NOT_READY ? [tag("not ready", "bad")] : []),
          ...(flags & QUARANTINED ? [tag("quarantined", "bad")] : []),
          ...(flags & CORDONED ? [tag("cordoned", "warn")] : []),
        );
      }
      setText(group, state.groupOf(at) || "–");
      group.title = state.groupOf(at);
      for (const [resource, bar] of Object.entries(bars)) {
        bar.fill({ ...Object.fromEntries(FIELDS.map((field) => [field, state.line[`${resource}.${field}`][at]])), used: state.sections.use?.[resource][at] ?? null });
      }
      setText(pods, number(state.line.pods[at]));
    };
    return { row, link, fill };
  }
}

export const nodes = new NodesView();
