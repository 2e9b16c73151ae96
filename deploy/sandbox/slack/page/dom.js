// The only place that makes elements. Text goes in as text nodes, so nothing anyone wrote can become markup.

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "testid") node.dataset.testid = value;
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const $ = (id) => document.getElementById(id);

export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return node;
}

const PATHS = {
  clip: "M14 6.5 7.7 12.8a2 2 0 0 0 2.8 2.8l6.4-6.4a3.6 3.6 0 0 0-5.1-5.1L5.2 10.7a5.3 5.3 0 0 0 7.5 7.5L18 13",
  file: "M6 2.5h6l4 4v11H6zM12 2.5v4h4",
  cross: "M5.5 5.5l11 11M16.5 5.5l-11 11",
  half: "M11 3.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15ZM11 3.5v15M14 5v12M17 7v8",
  link: "M9.5 12.5a3.5 3.5 0 0 0 5 0l3-3a3.5 3.5 0 0 0-5-5L11 6M12.5 9.5a3.5 3.5 0 0 0-5 0l-3 3a3.5 3.5 0 0 0 5 5l1.5-1.5",
  shared: "M3.5 8h13M13 4.5 16.5 8 13 11.5M18.5 14h-13M9 10.5 5.5 14 9 17.5",
};

export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  svg.setAttribute("viewBox", "0 0 22 22");
  svg.setAttribute("class", "svg");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

// A table of [class, content] cells. On a narrow page each row stands by itself, its cells under each other with the column's name.
export function grid(head, rows) {
  const names = head.map(([, content]) => h("span", {}, content).textContent);
  const top = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map(([kind, content]) => h("th", { class: kind, scope: "col", role: "columnheader" }, content))));
  const row = (cells) => h("tr", { role: "row" }, cells.map(([kind, content], n) => h("td", { class: kind, role: "cell", "data-head": names[n] ?? "" }, content)));
  return h("div", { class: "scroll" }, h("table", { role: "table" }, top, h("tbody", { role: "rowgroup" }, rows.map(row))));
}

// What was printed, word for word. Where it is so long that it scrolls in its own box, keys must reach it.
const TALL = 18;
const WIDE = 900;
export function verbatim(...content) {
  const box = h("pre", {}, ...content);
  const text = box.textContent;
  if (text.length > WIDE || text.split("\n").length > TALL) box.tabIndex = 0;
  return box;
}

// A link that a bot or a person wrote: only to the web, and it learns nothing about us.
export function link(url, ...label) {
  const safe = /^(https?:|mailto:)/i.test(url);
  return safe ? h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, ...label) : h("span", {}, ...label);
}

export function toast(text, kind = "") {
  const note = h("p", { class: `toast ${kind}`, testid: "toast" }, text);
  $("toasts").append(note);
  setTimeout(() => note.remove(), 7000);
}

export async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, options);
  const data = await answer.json().catch(() => ({ ok: false, error: `HTTP ${answer.status}` }));
  if (data.ok === false) throw new Error([data.error, ...(data.response_metadata?.messages ?? [])].join(": "));
  return data;
}

// For what people do: whatever goes wrong is said, not lost.
export async function attempt(path, body) {
  try {
    return await ask(path, body);
  } catch (error) {
    toast(error.message);
    return null;
  }
}
