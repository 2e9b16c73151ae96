// The simulated cluster: how its nodes are, and the menu that breaks and heals them.

import { $, ask, attempt, fill, h, toast } from "/page/dom.js";

const EVERY = 3000;
let faults = [];
let nodes = [];

const listed = (data, name) => (Array.isArray(data) ? data : Array.isArray(data?.[name]) ? data[name] : Object.entries(data?.[name] ?? {}).map(([key, value]) => ({ name: key, id: key, ...value })));
const named = (row) => (typeof row === "string" ? { id: row, name: row } : row);
const titleOf = (fault) => fault.title ?? fault.says ?? fault.name ?? fault.id;
const broken = (node) => (node.faults ?? []).map((one) => (typeof one === "string" ? one : [one.id ?? one.fault, one.gpu === undefined || one.gpu === null ? "" : `gpu${one.gpu}`].filter(Boolean).join(" ")));
const stateOf = (node) => (broken(node).length ? "broken" : node.drained || /drain|down/i.test(node.state ?? node.scheduler ?? "") ? "drained" : "well");
const gpusOf = (node) => (Array.isArray(node?.gpus) ? node.gpus.length : (node?.gpus ?? 8));

async function refresh() {
  try {
    nodes = listed(await ask("/cluster/state"), "nodes").map(named);
  } catch {
    nodes = [];
  }
  $("cluster").hidden = nodes.length === 0;
  fill($("nodes"), nodes.map(nodeRow));
  if ($("break").open) fill($("break").querySelector(".now"), wrongNow());
}

function nodeRow(node) {
  const wrong = broken(node);
  const words = wrong.length ? wrong.join(", ") : stateOf(node) === "well" ? "healthy" : (node.state ?? node.scheduler ?? "drained");
  return h("li", { class: stateOf(node), testid: `node-${node.name}`, "data-state": stateOf(node), title: `${node.name}: ${words}` }, h("i", { class: "dot" }), h("span", {}, node.name), h("small", {}, words));
}

function wrongNow() {
  const wrong = nodes.filter((node) => broken(node).length);
  if (!wrong.length) return h("p", { class: "faint" }, "Nothing is broken at the moment.");
  return h("ul", {}, wrong.map((node) => h("li", {}, h("strong", {}, node.name), ` ${broken(node).join(", ")}`)));
}

const groupOf = (fault) => fault.category ?? (fault.label ?? fault.id ?? "").split(".")[0] ?? "other";

function faultOptions() {
  const groups = Map.groupBy ? Map.groupBy(faults, groupOf) : new Map([["faults", faults]]);
  return [...groups].map(([name, rows]) => h("optgroup", { label: name.toLowerCase().replaceAll("_", " ") }, rows.map((fault) => h("option", { value: fault.id }, titleOf(fault)))));
}

function dialog() {
  const fault = h("select", { testid: "break-fault", size: "9" }, faultOptions());
  const node = h("select", { testid: "break-node" }, nodes.map((one) => h("option", { value: one.name }, one.name)));
  const gpu = h("select", { testid: "break-gpu" }, h("option", { value: "" }, "any"), [...Array(gpusOf(nodes[0])).keys()].map((n) => h("option", { value: String(n) }, `GPU ${n}`)));
  const search = h("input", { type: "search", placeholder: "Search faults", testid: "break-search", "aria-label": "Search faults" });
  const note = h("p", { class: "faint note" });
  const pick = () => {
    const row = faults.find((one) => one.id === fault.value);
    fill(note, row ? [row.label ?? row.id, row.description].filter((text) => text && text !== titleOf(row)).join(" · ") : "");
  };
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const option of fault.querySelectorAll("option")) option.hidden = !`${option.value} ${option.textContent}`.toLowerCase().includes(wanted);
    for (const one of fault.querySelectorAll("optgroup")) one.hidden = ![...one.children].some((option) => !option.hidden);
  });
  fault.addEventListener("change", pick);
  const go = async () => {
    if (!fault.value) return toast("Pick what should break.");
    const body = { fault: fault.value, node: node.value, ...(gpu.value === "" ? {} : { gpu: Number(gpu.value) }) };
    if (await attempt("/cluster/break", body)) await refresh();
  };
  const heal = async (body) => (await attempt("/cluster/heal", body)) && refresh();
  fill(
    $("break"),
    h("header", {}, h("h2", {}, "Break something"), h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: () => $("break").close() }, "✕")),
    h("div", { class: "body" }, h("p", { class: "faint" }, "Faults happen to the simulated nodes; RackMedic finds out by looking at them over SSH."), search, fault, note, h("div", { class: "pair" }, h("label", { class: "input" }, h("span", { class: "label" }, "Node"), node), h("label", { class: "input" }, h("span", { class: "label" }, "GPU, where it matters"), gpu)), h("h3", {}, "Broken now"), h("div", { class: "now" }, wrongNow())),
    h("footer", {}, h("button", { type: "button", class: "plain", testid: "break-heal", onclick: () => heal({}) }, "Heal everything"), h("button", { type: "button", class: "danger", testid: "break-go", onclick: go }, "Break it")),
  );
  $("break").showModal();
  search.focus();
}

export async function watchCluster() {
  $("break-open").hidden = false;
  $("break-open").addEventListener("click", async () => {
    try {
      faults = listed(await ask("/cluster/faults"), "faults").map(named);
      await refresh();
    } catch (error) {
      return toast(error.message);
    }
    dialog();
  });
  await refresh();
  setInterval(refresh, EVERY);
}
