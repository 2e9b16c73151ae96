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

// A link that a bot or a person wrote: only to the web, and it learns nothing about us.
export function link(url, ...label) {
  const safe = /^(https?:|mailto:)/i.test(url);
  return safe ? h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, ...label) : h("span", {}, ...label);
}

export function toast(text) {
  const note = h("p", { class: "toast", testid: "toast" }, text);
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
