// The simulated cluster: how its nodes are, and the menu that breaks them, makes things hard, and heals them.

import { completes, hostOffers } from "/page/completion.js";
import { $, ask, attempt, fill, h, icon, toast } from "/page/dom.js";
import { difficulties, titleOfModifier } from "/page/hard.js";
import { inspect, inspecting } from "/page/inspector.js";

const EVERY = 3000;
let menu = { faults: [], difficulties: [] };
let state = { nodes: [], modifiers: [], controller: "" };

export const nodeNames = () => state.nodes.map((node) => node.name);
const titleOf = (fault) => fault.title ?? fault.id;
const broken = (node) => (node.faults ?? []).map((one) => [one.id ?? one.fault, one.gpu === undefined || one.gpu === null ? "" : `gpu${one.gpu}`].filter(Boolean).join(" "));
const stateOf = (node) => (broken(node).length ? "broken" : node.drained || /drain|down/i.test(node.state ?? "") ? "drained" : "well");

export async function refresh() {
  try {
    state = { modifiers: [], ...(await ask("/cluster/state")) };
  } catch {
    state = { nodes: [], modifiers: [] };
  }
  $("cluster").hidden = state.nodes.length === 0;
  const rows = state.nodes.map(nodeRow);
  if (state.controller) rows.push(machineRow(state.controller, "well", "scheduler"));
  redrawn($("nodes"), rows);
  redrawn($("hardness"), state.modifiers.map((text) => h("li", { title: text }, titleOfModifier(menu.difficulties, text))));
  $("hardness").hidden = state.modifiers.length === 0;
  if ($("break").open) fill($("break").querySelector(".now"), wrongNow());
  if (inspecting()) inspect(inspecting());
}

// Anew only where something changed, so that focus stays.
function redrawn(list, rows) {
  const print = rows.map((row) => row.outerHTML).join();
  if (list.print !== print) {
    const held = list.contains(document.activeElement) ? document.activeElement.dataset.testid : "";
    fill(list, rows);
    list.print = print;
    if (held) list.querySelector(`[data-testid="${CSS.escape(held)}"]`)?.focus();
  }
}

function nodeRow(node) {
  const wrong = broken(node);
  const standing = stateOf(node);
  return machineRow(node.name, standing, wrong.length ? wrong.join(", ") : standing === "well" ? "healthy" : node.state || "drained");
}

function machineRow(name, standing, words) {
  const open = { type: "button", testid: `node-${name}`, "data-state": standing, title: `${name}: ${words}. Look inside`, "aria-haspopup": "true", onclick: () => inspect(name, true) };
  return h("li", { class: standing }, h("button", open, h("i", { class: "dot", "aria-hidden": "true" }), h("span", {}, name), h("small", {}, words)));
}

function wrongNow() {
  const wrong = state.nodes.filter((node) => broken(node).length);
  const hard = state.modifiers.map((text) => h("li", {}, titleOfModifier(menu.difficulties, text), " ", h("code", {}, text)));
  if (!wrong.length && !hard.length) return h("p", { class: "faint" }, "Nothing is broken at the moment.");
  return h("ul", {}, wrong.map((node) => h("li", {}, h("strong", {}, node.name), ` ${broken(node).join(", ")}`)), hard);
}

const CATEGORIES = { GPU: "GPU", SYSTEM_SOFTWARE: "system software", INTERCONNECT: "interconnect", FRAMEWORK: "framework", USER: "the user's own", OTHER: "other" };
const groupOf = (fault) => { const key = (fault.category ?? fault.label ?? "").split(".")[0]; return CATEGORIES[key] ?? (key || "faults"); };

function faultOptions() {
  const groups = new Map();
  for (const fault of menu.faults) groups.set(groupOf(fault), [...(groups.get(groupOf(fault)) ?? []), fault]);
  return [...groups].map(([name, rows]) => h("optgroup", { label: name }, rows.map((fault) => h("option", { value: fault.id }, `${titleOf(fault)} (${fault.id})`))));
}

const FAR = { cluster: "It happens to the whole cluster, whichever node is named.", job: "It happens to the job on all of these nodes.", switch: "It happens to all of these nodes together.", rack: "It happens to all of these nodes together." };

function dialog() {
  const names = nodeNames();
  const fault = h("select", { testid: "break-fault", size: "8", "aria-label": "Fault" }, faultOptions());
  const node = h("input", { testid: "break-node", value: names[0], autocomplete: "off", spellcheck: "false", "aria-describedby": "break-node-hint" });
  node.value = names[0] ?? "";
  const offers = h("ul", { class: "suggest below", role: "listbox", hidden: true });
  completes(node, offers, (typed) => hostOffers(names)(typed).map((one) => ({ ...one, tail: "", eager: true })));
  const gpus = state.nodes[0]?.gpus ?? 8;
  const gpu = h("select", { testid: "break-gpu" }, h("option", { value: "" }, "any"), [...Array(gpus).keys()].map((n) => h("option", { value: String(n) }, `GPU ${n}`)));
  const search = h("input", { type: "search", placeholder: `Search ${menu.faults.length} faults`, testid: "break-search", "aria-label": "Search faults" });
  const note = h("p", { class: "faint note", role: "status" });
  const pick = () => {
    const row = menu.faults.find((one) => one.id === fault.value);
    gpu.disabled = Boolean(row?.scope) && row.scope !== "gpu";
    fill(note, row ? [row.label, FAR[row.scope]].filter(Boolean).join(" · ") : "");
  };
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const option of fault.querySelectorAll("option")) option.hidden = !`${option.value} ${option.textContent}`.toLowerCase().includes(wanted);
    for (const one of fault.querySelectorAll("optgroup")) one.hidden = ![...one.children].some((option) => !option.hidden);
  });
  fault.addEventListener("change", pick);
  const go = async () => {
    if (!fault.value) return fill(note, "Pick in the list what should break.");
    const body = { fault: fault.value, node: node.value.trim(), ...(gpu.value === "" || gpu.disabled ? {} : { gpu: Number(gpu.value) }) };
    if (!(await attempt("/cluster/break", body))) return;
    await refresh();
    fill(note, `Done: ${titleOf(menu.faults.find((one) => one.id === body.fault))} on ${body.node}. Now ask RackMedic in a channel.`);
  };
  const heal = async () => {
    if (await attempt("/cluster/heal", {})) await refresh();
    hard.reset([]);
  };
  const hard = difficulties(menu.difficulties, names, () => state.modifiers, refresh);
  fill(
    $("break"),
    h("header", {}, h("h2", { id: "break-title" }, "Break something"), h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: () => $("break").close() }, icon("cross"))),
    h(
      "div",
      { class: "body" },
      h("p", { class: "faint" }, "Faults happen to the simulated nodes; RackMedic finds out by looking at them over SSH."),
      search,
      fault,
      note,
      h("div", { class: "pair" }, h("div", { class: "input anchor" }, h("label", { class: "label", for: "break-node" }, "Nodes"), node, offers, h("span", { class: "hint", id: "break-node-hint" }, "one, or a range")), h("label", { class: "input" }, h("span", { class: "label" }, "GPU, where it matters"), gpu)),
      hard.node,
      h("h3", {}, "Broken now"),
      h("div", { class: "now" }, wrongNow()),
    ),
    h("footer", {}, h("button", { type: "button", class: "plain", testid: "break-heal", onclick: heal }, "Heal everything"), h("button", { type: "button", class: "danger", testid: "break-go", onclick: go }, "Break it")),
  );
  node.id = "break-node";
  $("break").showModal();
  search.focus();
}

export async function watchCluster() {
  for (const id of ["break-open", "case-open"]) $(id).hidden = false;
  menu = { difficulties: [], ...(await ask("/cluster/faults").catch(() => menu)) };
  $("break-open").addEventListener("click", async () => {
    await refresh();
    if (menu.faults.length && state.nodes.length) dialog();
    else toast("The cluster does not answer, so nothing can be broken.");
  });
  await refresh();
  setInterval(refresh, EVERY);
}
