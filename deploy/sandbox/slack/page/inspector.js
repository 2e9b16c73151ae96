// Behind the curtain of one machine: how it is, what is broken on it, and what RackMedic asked it, word for word.

import { $, ask, attempt, fill, h, icon, toast, verbatim } from "/page/dom.js";

let shown = "";
const opened = new Set();
let print = "";

export const inspecting = () => shown;

// `wanted`: somebody asked for it; else it is brought up to date.
export async function inspect(name, wanted = false) {
  let node;
  try {
    node = await ask(`/cluster/node?name=${encodeURIComponent(name)}`);
  } catch (error) {
    if (wanted) toast(error.message);
    return;
  }
  if (!wanted && shown !== name) return;
  if (wanted) print = "";
  shown = name;
  if (print !== JSON.stringify(node)) draw(node);
  print = JSON.stringify(node);
  $("inspector").hidden = false;
  if (wanted) $("inspector-close").focus();
}

export function closeInspector() {
  const name = shown;
  shown = "";
  $("inspector").hidden = true;
  document.querySelector(`[data-testid="node-${CSS.escape(name)}"]`)?.focus();
}

function draw(node) {
  $("inspector-name").textContent = node.name;
  $("inspector-state").textContent = [node.state, node.reason, node.driver && `driver ${node.driver}`, node.up_hours !== undefined && `up ${node.up_hours} h`].filter(Boolean).join(" · ");
  const place = $("inspected").scrollTop;
  fill($("inspected"), faults(node), node.gpus && gpus(node.gpus), node.services && list("Services", node.services), node.adapters && list("Adapters", node.adapters), node.job && job(node.job), commands(node.commands ?? []));
  $("inspected").scrollTop = place;
}

function faults(node) {
  const heal = async () => (await attempt("/cluster/heal", { node: node.name })) && inspect(node.name);
  if (!node.faults?.length) return h("p", { class: "faint" }, node.gpus ? "Nothing is broken here. RackMedic does not see this page: it has to find out." : "The scheduler's own machine: drains and jobs are asked here.");
  const row = (one) => h("li", {}, h("strong", {}, one.title ?? one.id), one.gpu === null || one.gpu === undefined ? "" : ` GPU ${one.gpu}`, " ", h("code", {}, one.label ?? one.id));
  return [h("h2", {}, "Broken here"), h("ul", { class: "plain-list" }, node.faults.map(row)), h("button", { type: "button", class: "plain", testid: "inspector-heal", onclick: heal }, `Heal ${node.name}`)];
}

function gpus(rows) {
  if (!Array.isArray(rows)) return null;
  const figures = (gpu) => (gpu.temp === undefined ? "" : `${gpu.temp} °C · ${gpu.watts} W · ${gpu.clock} MHz · ${gpu.util} %`);
  const more = (gpu) => [gpu.links && `NVLinks ${gpu.links}`, gpu.errors ? `${gpu.errors} memory errors` : "", gpu.processes !== undefined && `${gpu.processes} processes`].filter(Boolean).join(" · ");
  const card = (gpu) => h("li", { class: gpu.state ? "ill" : "" }, h("strong", {}, `GPU ${gpu.index}`), h("span", { class: "standing" }, gpu.state || "well"), h("small", {}, figures(gpu)), h("small", {}, more(gpu)), h("small", { class: "faint" }, gpu.bus));
  return [h("h2", {}, "GPUs"), h("ul", { class: "gpus", testid: "inspector-gpus" }, rows.map(card))];
}

function list(title, rows) {
  const sorted = [...rows].sort((a, b) => a.well - b.well);
  const ill = rows.filter((row) => !row.well).length;
  return h("details", { open: ill > 0 }, h("summary", {}, `${title}: ${ill ? `${ill} of ${rows.length} not well` : `all ${rows.length} well`}`), h("ul", { class: "plain-list" }, sorted.map((row) => h("li", { class: row.well ? "" : "ill" }, h("strong", {}, row.name), ` ${row.state}`))));
}

const job = (row) => h("p", {}, row.ranks.length ? `Job ${row.id}, ranks ${row.ranks[0]} to ${row.ranks.at(-1)}, ${row.running ? "running" : "ended"}` : "No job runs here.");

const ended = (row) => (row.status === null ? "no answer" : row.status === 0 ? "" : `exit ${row.status}`);

function commands(rows) {
  const row = (one) => {
    const key = one.at + one.line;
    const shows = h("details", { open: opened.has(key), ontoggle: (event) => (event.target.open ? opened.add(key) : opened.delete(key)) });
    const said = [one.stdout, one.stderr].filter(Boolean).join("\n") || (one.status === null ? "(it hung)" : "(it printed nothing)");
    return fill(shows, h("summary", { testid: "asked" }, h("time", { datetime: one.at }, new Date(one.at).toLocaleTimeString([], { hourCycle: "h23" })), " ", h("strong", {}, one.asks || "another command"), " ", h("span", { class: "bad" }, ended(one))), h("pre", { class: "line" }, one.line), verbatim(said), one.cut && h("p", { class: "faint" }, "Longer than that: the rest is not kept here."));
  };
  return [h("h2", {}, "Asked lately"), rows.length ? h("div", { class: "asked" }, rows.map(row)) : h("p", { class: "faint" }, "RackMedic has asked nothing here yet.")];
}

$("inspector-close").append(icon("cross"));
$("inspector-close").addEventListener("click", closeInspector);
