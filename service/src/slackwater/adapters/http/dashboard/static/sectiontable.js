// A view that is one long table of a section's entries, with a search, and with words for when it is empty.
import { el, empty, setText } from "./dom.js";
import { LongTable } from "./longtable.js";
import { many, number } from "./units.js";
import { pointAt } from "./why.js";

const FEW = 8;

export class SectionTable {
  // `list(state)` gives {total, entries} where they are no section of their own. `columns`: {title, width, class, text(entry)}; the first is the link, which `link(entry)` points as [kind, name] or null.
  constructor({ section, list = (state) => state.list(section), label, one, columns, link, key, nothing, words, rest = "the first are listed" }) {
    Object.assign(this, { list, label, one, columns, link, key, nothing, words, rest });
  }

  build() {
    const { columns } = this;
    this.search = el("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => this.draw(this.state), placeholder: "part of any column" });
    this.shown = el("p", { class: "dim", role: "status" });
    this.long = new LongTable({ label: this.label, columns, make: () => this.row(), key: this.key });
    this.tools = el("div", { class: "tools", role: "search", "aria-label": this.label }, el("label", {}, "Search", this.search), this.shown);
    this.none = empty(this.nothing);
    this.element = el("div", {}, this.tools, this.none, this.long.element);
    return this.element;
  }

  draw(state) {
    this.state = state;
    const { total, entries } = this.list(state);
    const text = this.search.value.trim().toLowerCase();
    const found = text ? entries.filter((entry) => this.words(entry).toLowerCase().includes(text)) : entries;
    this.none.hidden = entries.length > 0;
    this.long.element.hidden = entries.length === 0;
    // A few rows are seen at once: nobody needs a search there. Never hidden while something is searched for.
    this.tools.hidden = entries.length <= FEW && !text;
    const left = total > entries.length ? `; ${this.rest}` : "";
    setText(this.shown, `${number(found.length)} of ${many(total, this.one)}${left}`);
    this.long.show(found);
  }

  row() {
    const link = el("a", { class: "why" });
    const cells = this.columns.map((column, index) => (index ? el("td", { class: column.class, "data-label": column.title }) : el("th", { scope: "row" }, link)));
    const fill = (entry) => {
      const target = this.link(entry);
      if (target) pointAt(link, ...target);
      else link.removeAttribute("href");
      this.columns.forEach((column, index) => {
        const text = column.text(entry);
        setText(index ? cells[index] : link, text);
        if (cells[index].title !== text) cells[index].title = text;
      });
    };
    return { row: el("tr", {}, ...cells), link, fill };
  }
}

export const podName = ({ namespace, name }) => (namespace ? `${namespace}/${name}` : name || "unknown");
