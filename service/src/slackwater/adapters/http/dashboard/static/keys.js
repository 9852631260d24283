// Shortcuts: / searches, g and a letter goes to a view, ? shows them all. None works while something is typed.
import { byId } from "./dom.js";

const GOES = { o: "overview", n: "nodes", p: "pending", g: "groups", d: "drains", e: "preemptions", m: "migrations", s: "slack", t: "timeline" };
let went = 0;

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (Date.now() - went < 1500 && GOES[event.key]) {
      went = 0;
      location.hash = `#/${GOES[event.key]}`;
    } else if (event.key === "g") went = Date.now();
    else if (event.key === "?") byId("keys").showModal();
    else if (event.key === "/") {
      if (!document.querySelector("section:not([hidden]) input[type=search]")) location.hash = "#/nodes";
      requestAnimationFrame(() => document.querySelector("section:not([hidden]) input[type=search]")?.focus());
    } else return;
    event.preventDefault();
  });
}
