// Node groups as the autoscaler's last loop saw them: targets, nodes in creation, what waits for a limit, cool-downs.
import { el, empty, tag } from "./dom.js";
import { clock, duration, many, money, number } from "./units.js";
import { whyLink } from "./why.js";

// What of a group's cost is shown, each for an hour.
const COSTS = { node: "A node, an hour", present: "All nodes, an hour", planned: "Planned, an hour" };

class GroupsView {
  id = "groups";
  title = "Node groups";
  about = "As the autoscaler's last loop saw them";
  needs = ["autoscaler"];
  count = (state) => state.sections.autoscaler?.groups.length ?? 0;

  build() {
    return (this.element = el("div"));
  }

  draw(state) {
    const loop = state.sections.autoscaler;
    const text = JSON.stringify(loop);
    if (this.shown === text) return;
    this.shown = text;
    if (!loop) {
      this.element.replaceChildren(empty("The autoscaler is off, or its first loop has not ended."));
      return;
    }
    // The focus is restored: each loop draws everything here again.
    const focused = this.element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.element.replaceChildren(...this.parts(loop));
    if (focused) this.element.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }

  parts(loop) {
    const { pending, seconds } = loop;
    const parts = [
      el("p", {}, `Loop ${number(loop.loop)} of ${clock(Date.parse(loop.at) / 1000)} took ${seconds.whole.toFixed(2)} s. ${many(loop.inCreation, "node")} in creation. Of ${many(pending.total, "pending pod")}: ${number(pending.helped)} get new nodes, ${number(pending.schedulable)} fit what is there or coming, ${number(pending.unhelpable)} cannot be helped, ${number(pending.passedOver + pending.notLookedAt)} are not counted.`),
    ];
    const costs = [["present", "The nodes of all groups cost"], ["planned", "the planned ones"]].filter(([name]) => loop.cost?.[name]);
    if (costs.length) parts.push(el("p", {}, `${costs.map(([name, what]) => `${what} ${money(loop.cost?.[name])}`).join(", ")} an hour.`));
    if (!loop.healthy) parts.push(el("p", { class: "notes" }, "Too many nodes are unready: nothing is changed until they are back."));
    for (const problem of loop.problems) parts.push(el("p", { class: "notes" }, problem));
    parts.push(el("div", { class: "cards" }, ...loop.groups.map((group) => this.card(group, loop))));
    if (loop.queued.length) parts.push(el("h3", {}, "Waiting for a limit"), this.queued(loop.queued));
    return parts;
  }

  card(group, loop) {
    const cooling = loop.scaleDown?.cooling[group.name];
    const unneeded = loop.scaleDown?.unneeded[group.name] ?? 0;
    const rows = [
      ["Target", `${number(group.target)} nodes (${number(group.minSize)} to ${number(group.maxSize)})`],
      ["Ready", number(group.ready)],
      ["In creation", `${number(group.coming)} asked for, ${number(group.starting)} starting`],
      ["Unready", number(group.unready)],
      ["Leaving", number(group.leaving)],
      ["Not needed", number(unneeded)],
      ["Planned", number(group.planned)],
      ...Object.entries(COSTS).filter(([name]) => group.cost?.[name]).map(([name, title]) => [title, money(group.cost?.[name])]),
    ];
    const marks = [];
    if (group.closed) marks.push(tag(`may not grow: ${group.closed}`, "warn"));
    if (cooling) marks.push(tag(`may not shrink: ${cooling}`, "warn"));
    if (!marks.length) marks.push(tag("open", "good"));
    const more = [];
    if (group.asked) more.push(el("p", {}, `Asked to go from ${number(group.asked.from)} to ${number(group.asked.to)} nodes${group.asked.problem ? `: ${group.asked.problem}` : "."}`));
    if (group.backoff) more.push(el("p", {}, `Back-off for ${duration(group.backoff.endsInSeconds)}: ${group.backoff.code} ${group.backoff.message}`));
    if (group.lost.length) more.push(el("details", {}, el("summary", {}, many(group.lost.length, "lost machine")), el("ul", { class: "plain" }, ...group.lost.slice(0, 20).map((lost) => el("li", {}, `${lost.instance}: ${lost.code} ${lost.message}`)))));
    return el("article", { class: "card", "aria-label": `Node group ${group.name}` },
      el("h3", {}, whyLink("groups", group.name), ...marks),
      el("table", { "aria-label": `Figures of ${group.name}` }, el("tbody", {}, ...rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row", class: "dim" }, name), el("td", { class: "number" }, value))))),
      el("p", { class: "dim" }, `Provider ${group.provider}`), ...more);
  }

  queued(queued) {
    const head = ["Group", "Nodes", "Priority", "Waits for"].map((title) => el("th", { scope: "col" }, title));
    const rows = queued.map((wait) => el("tr", {}, el("th", { scope: "row" }, wait.group), el("td", {}, number(wait.nodes)), el("td", {}, number(wait.priority)), el("td", {}, String(wait.waitsFor))));
    return el("div", { class: "scroll" }, el("table", { "aria-label": "Growth that waits for a limit" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
  }
}

export const groups = new GroupsView();
