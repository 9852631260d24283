// Removals under way: how far each node is, and of each of its pods where the plan sees it go and how far it is.
import { el, empty, tag } from "./dom.js";
import { podName } from "./sectiontable.js";
import { age, duration, many, number } from "./units.js";
import { whyLink } from "./why.js";

const PHASES = {
  marking: "being tainted", marked: "tainted", evicting: "pods are leaving", delaying: "empty, waiting", removing: "machine is being deleted",
  leaving: "machine is deleted", unmarking: "being rolled back", ended: "over",
};
const STEPS = { planned: "to be asked", asked: "asked to leave", taken: "ending", waiting: "asked again later", refused: "refused", migrating: "migrating", seeking: "place is checked", homeless: "fits nowhere now", gone: "gone" };
const KINDS = { gone: "good", refused: "bad", waiting: "warn", homeless: "warn" };

// When it ends if the rest goes as fast as what is gone; a blocked eviction has no end in sight.
function eta(drain) {
  if (drain.blocked) return `${many(drain.blocked, "pod")} blocked by a disruption budget.`;
  const left = drain.podsTotal - drain.gone;
  if (!left || !drain.gone) return "";
  return `About ${duration(((Date.now() / 1000 - drain.began) * left) / drain.gone)} left.`;
}

class DrainsView {
  id = "drains";
  title = "Drains";
  about = "Nodes on their way out, and where their pods go";
  needs = ["drains"];
  count = (state) => state.list("drains").total;

  build() {
    return (this.element = el("div"));
  }

  draw(state) {
    const { total, entries } = state.list("drains");
    if (!entries.length) {
      this.element.replaceChildren(empty("No node is being removed."));
      return;
    }
    const focused = this.element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const open = new Set([...this.element.querySelectorAll("details[open]")].map((found) => found.dataset.node));
    const shown = entries.slice(0, 200);
    const more = total > shown.length ? [el("p", { class: "dim" }, `${number(shown.length)} of ${number(total)} are shown.`)] : [];
    this.element.replaceChildren(...more, el("div", { class: "cards roomy" }, ...shown.map((drain) => this.card(drain, entries.length <= 6 || open.has(drain.node)))));
    if (focused) this.element.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }

  card(drain, open) {
    const left = drain.pods.filter((pod) => pod.step !== "gone").length;
    const bad = drain.phase === "unmarking";
    const head = ["Pod", "Now", "Goes to"].map((title) => el("th", { scope: "col" }, title));
    const pods = drain.podsTotal ? el("details", { open, "data-node": drain.node },
      el("summary", {}, `${many(drain.podsTotal, "pod")}, ${number(left)} still there${drain.podsTotal > drain.pods.length ? `; the first ${drain.pods.length} are listed` : ""}`),
      el("table", { class: "free", "aria-label": `Pods of ${drain.node}` }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...drain.pods.map((pod) => this.pod(pod))))) : el("p", {}, "No pod has to leave.");
    return el("article", { class: "card", "aria-label": `Removal of ${drain.node}` },
      el("h3", {}, whyLink("nodes", drain.node), tag(PHASES[drain.phase] ?? drain.phase, bad ? "bad" : "warn")),
      el("p", { class: "dim" }, `Group ${drain.group}, ${drain.empty ? "empty" : "drained"}, began ${age(drain.began)} ago, ${many(drain.evicted, "pod")} evicted. ${eta(drain)}`),
      el("progress", { max: Math.max(1, drain.podsTotal), value: drain.gone, "aria-label": `Pods of ${drain.node} that are gone` }),
      drain.reason ? el("p", { class: "notes" }, `Given up: ${drain.reason} ${drain.detail}`) : null, pods);
  }

  pod(pod) {
    return el("tr", {}, el("th", { scope: "row" }, pod.step === "gone" ? podName(pod) : whyLink("pods", podName(pod))),
      el("td", { "data-label": "Now" }, tag(STEPS[pod.step] ?? pod.step, KINDS[pod.step] ?? "dim"), pod.blockedBy ? el("span", { class: "dim" }, ` budget ${pod.blockedBy} allows no disruption now`) : pod.detail ? el("span", { class: "dim" }, ` ${pod.detail}`) : null),
      el("td", { "data-label": "Goes to" }, pod.destination ?? "not planned"));
  }
}

export const drains = new DrainsView();
