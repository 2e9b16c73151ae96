// What makes an incident hard without changing its answer: a row a difficulty, chosen and set together.

import { attempt, fill, h } from "/page/dom.js";

const idOf = (text) => /^[RH]\d+/.exec(text)?.[0] ?? "";
const argOf = (text, name) => new RegExp(`[(, ]${name}=([^,)]*)`).exec(text)?.[1];
const hostOf = (text) => /@([^@\s]+)$/.exec(text)?.[1] ?? "";
const LOOKALIKE = "A healthy look-alike of a fault";

export const titleOfModifier = (rows, text) => `${rows.find((row) => row.id === idOf(text))?.title ?? LOOKALIKE}${hostOf(text) ? `, ${hostOf(text)}` : ""}`;

function choice(row, names, text) {
  const on = h("input", { type: "checkbox", testid: `hard-${row.id}`, checked: Boolean(text), onchange: () => (more.hidden = !on.checked) });
  const select = (name, values, now) => h("label", {}, `${name} `, h("select", { testid: `hard-${row.id}-${name}` }, values.map(([value, shown]) => h("option", { value, selected: value === now }, shown))));
  const parts = Object.entries(row.choices).map(([name, values]) => [name, select(name, values.map((value) => [value, value]), text && argOf(text, name))]);
  const where = row.node && select("node", [["", row.id === "R4" ? "nobody named" : "any"], ...names.map((name) => [name, name])], text && hostOf(text));
  const more = h("div", { class: "more", hidden: !text }, parts.map(([, node]) => node), where);
  const written = () => {
    const args = parts.map(([name, node]) => `${name}=${node.lastChild.value}`).join(", ");
    return `${row.id}${args && `(${args})`}${where && where.lastChild.value ? `@${where.lastChild.value}` : ""}`;
  };
  return { node: h("li", {}, h("label", {}, on, h("span", {}, row.title, " ", h("small", { class: "faint" }, row.id))), more), read: () => (on.checked ? written() : "") };
}

// `now` answers the modifiers that hold; those that no row makes (a story's own) are kept as they are.
export function difficulties(rows, names, now, changed) {
  const list = h("ul", { class: "hard" });
  let choices = [];
  const reset = (texts) => {
    choices = rows.map((row) => choice(row, names, texts.find((text) => idOf(text) === row.id)));
    fill(list, choices.map((one) => one.node));
  };
  const set = async () => {
    const others = now().filter((text) => !rows.some((row) => row.id === idOf(text)));
    const modifiers = [...choices.map((one) => one.read()).filter(Boolean), ...others];
    if (await attempt("/cluster/modify", { modifiers })) await changed();
  };
  reset(now());
  const node = h("details", { class: "harder", open: now().length > 0 }, h("summary", { testid: "hard-open" }, "Make it hard"), h("p", { class: "faint" }, "Noise that changes no answer: old lines, floods, lies, looks that fail. “The report blames” asks you to write so."), list, h("button", { type: "button", class: "plain", testid: "hard-set", onclick: set }, "Use what is ticked"));
  return { node: rows.length ? node : null, reset };
}
