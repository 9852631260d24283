"use strict";
// Draws /dumpstate; nothing is kept here but what was last read. Rows are capped so that a large cluster stays quick: the
// filter reaches the others, and the page says how many it shows.
const MAX_ROWS = 200;
const EVERY_MS = 2000;
let last = null;

const byId = (id) => document.getElementById(id);
const cell = (text, className) => Object.assign(document.createElement("td"), { textContent: text, className: className || "" });
const cpu = (milli) => (milli % 1000 === 0 ? String(milli / 1000) : `${milli}m`);
const memory = (bytes) => (bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`);

function bar(amounts, name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const total = Math.max(amounts.total, 1);
  const share = (amount) => Math.min((100 * amount) / total, 100);
  svg.setAttribute("aria-label", `${name}: ${Math.round((100 * amounts.reserved) / total)} percent reserved`);
  const part = (x, width, className) => {
    const rect = document.createElementNS(svg.namespaceURI, "rect");
    for (const [key, value] of Object.entries({ x, y: 0, width, height: 10, class: className })) rect.setAttribute(key, value);
    svg.append(rect);
  };
  part(0, share(amounts.reserved), amounts.reserved > amounts.total ? "over" : "reserved");
  part(share(amounts.reserved), Math.min(share(amounts.held), 100 - share(amounts.reserved)), "held");
  const line = document.createElementNS(svg.namespaceURI, "line");
  const x = share(amounts.watermark);
  for (const [key, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: 10, class: "mark" })) line.setAttribute(key, value);
  svg.append(line);
  const td = cell("", "bar");
  td.append(svg);
  return td;
}

function drawNodes() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const nodes = last.nodes.filter((node) => node.name.toLowerCase().includes(wanted));
  const pods = new Map();
  for (const pod of last.pods) pods.set(pod.node, (pods.get(pod.node) || 0) + 1);
  byId("shown").textContent = `${Math.min(nodes.length, MAX_ROWS)} of ${nodes.length} matching, ${last.nodes.length} in all`;
  byId("nodes").replaceChildren(...nodes.slice(0, MAX_ROWS).map((node) => {
    const row = document.createElement("tr");
    row.append(
      cell(node.name + (node.ready ? "" : " (not ready)") + (node.unschedulable ? " (cordoned)" : "")),
      bar(node.cpu, `CPU of ${node.name}`), cell(`${cpu(node.cpu.reserved)} of ${cpu(node.cpu.total)}`),
      bar(node.memory, `Memory of ${node.name}`), cell(`${memory(node.memory.reserved)} of ${memory(node.memory.total)}`),
      cell(String(pods.get(node.name) || 0)));
    return row;
  }));
}

function drawPending() {
  const rows = last.pending.slice(0, MAX_ROWS).map((pod) => {
    const row = document.createElement("tr");
    row.append(cell(`${pod.namespace}/${pod.name}`), cell(cpu(pod.requests.cpu)), cell(memory(pod.requests.memory)), cell(pod.message || "not tried yet"));
    return row;
  });
  if (last.pending.length > MAX_ROWS) {
    const more = cell(`and ${last.pending.length - MAX_ROWS} more`);
    more.colSpan = 4;
    rows.push(document.createElement("tr"));
    rows[rows.length - 1].append(more);
  }
  byId("pending").replaceChildren(...rows);
}

function drawFacts(status) {
  const facts = { Nodes: status.nodes, "Pods placed": status.claims, Pending: last.pending.length, Attempts: status.schedulingAttempts,
    Failures: status.schedulingFailures, Holds: status.holds, Adopted: status.adopted };
  byId("facts").replaceChildren(...Object.entries(facts).map(([name, value]) => {
    const box = document.createElement("div");
    box.append(Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: String(value) }));
    return box;
  }));
  const problem = status.settingsProblem ? ` A changed configuration was refused: ${status.settingsProblem}` : "";
  byId("state").textContent = status.ready ? `Version ${status.version}, generation ${status.generation}.${problem}` : `Not ready: waiting for ${status.waitingFor.join(", ")}.`;
}

async function refresh() {
  try {
    const [state, status] = await Promise.all(["/dumpstate", "/statusz"].map(async (path) => {
      const answer = await fetch(path);
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
      return answer.json();
    }));
    last = state;
    drawFacts(status);
    drawNodes();
    drawPending();
  } catch (error) {
    byId("state").textContent = `The service does not answer (${error.message}); trying again.`;
  }
  setTimeout(refresh, EVERY_MS);
}

byId("filter").addEventListener("input", () => last && drawNodes());
refresh();
