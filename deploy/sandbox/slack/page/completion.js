// A list under what is being typed: arrows choose, Tab takes, Escape leaves. Used wherever names of people, commands or hosts are written.

import { fill, h } from "/page/dom.js";

let lists = 0;

// `offers(word, box)` answers [{insert, label, note, tail, eager}]; `word` is what stands before the cursor. An eager one is taken by Enter at once,
// the others only after somebody has chosen among them, so that Enter still sends a finished sentence.
export function completes(box, menu, offers, changed = () => {}) {
  let options = [];
  let current = 0;
  let chosen = false;
  const id = `suggest-${++lists}`;
  menu.id = id;
  menu.setAttribute("aria-label", "Suggestions");
  box.setAttribute("aria-autocomplete", "list");
  box.setAttribute("aria-controls", id);

  const word = () => /(?:^|[\s,(])([@/]?[\w.[\]-]*)$/.exec(box.value.slice(0, box.selectionStart))?.[1] ?? "";

  const shown = () => {
    menu.hidden = options.length === 0;
    fill(menu, options.map((one, n) => h("li", { role: "option", id: `${id}-${n}`, class: n === current ? "on" : "", "aria-selected": String(n === current), onmousedown: (event) => { event.preventDefault(); take(n); } }, h("strong", {}, one.label), " ", h("span", { class: "faint" }, one.note))));
    if (options.length) box.setAttribute("aria-activedescendant", `${id}-${current}`);
    else box.removeAttribute("aria-activedescendant");
  };

  const look = () => {
    const typed = word();
    options = typed ? offers(typed, box).filter((one) => one.insert !== typed).slice(0, 6) : [];
    current = 0;
    chosen = false;
    shown();
  };

  const close = () => {
    options = [];
    shown();
  };

  const take = (n) => {
    const one = options[n];
    box.setRangeText(`${one.insert}${one.tail ?? " "}`, box.selectionStart - word().length, box.selectionStart, "end");
    close();
    box.dispatchEvent(new Event("input"));
    changed();
  };

  box.addEventListener("input", look);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (menu.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      current = (current + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length;
      chosen = true;
      shown();
    } else if (event.key === "Tab" || (event.key === "Enter" && (chosen || options[current].eager))) {
      take(current);
    } else if (event.key === "Escape") {
      close();
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  });
  return { look };
}

// Hosts that begin so, and the range of all of them.
export function hostOffers(names) {
  const common = names.length > 1 ? rangeOf(names) : "";
  return (typed) => {
    if (typed.length < 2 || /^[@/]/.test(typed)) return [];
    const whole = common && common.startsWith(typed) ? [{ insert: common, label: common, note: `all ${names.length} nodes` }] : [];
    const single = names.filter((name) => name.startsWith(typed)).map((name) => ({ insert: name, label: name, note: "node" }));
    return single.length + whole.length === 1 && single[0]?.insert === typed ? [] : [...whole, ...single];
  };
}

// `gpu-[001-004]`, where the names differ in a run of numbers at their end.
export function rangeOf(names) {
  const parts = names.map((name) => /^(.*?)(\d+)$/.exec(name));
  if (parts.some((part) => !part || part[1] !== parts[0][1] || part[2].length !== parts[0][2].length)) return "";
  const numbers = parts.map((part) => part[2]).sort();
  const run = numbers.every((number, n) => n === 0 || Number(number) === Number(numbers[n - 1]) + 1);
  return run ? `${parts[0][1]}[${numbers[0]}-${numbers.at(-1)}]` : "";
}
