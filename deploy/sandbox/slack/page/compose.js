// The box people write in: mentions and commands complete, files attach, Enter sends.

import { completes } from "/page/completion.js";
import { attempt, fill, h, icon } from "/page/dom.js";

async function encoded(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return { name: file.name, base64: btoa(text) };
}

// `place` answers {user, channel, thread_ts} for the message about to be sent; `complete` answers [{insert, label, note}] for what is being typed.
export function composer(form, testid, { place, complete, isCommand, send }) {
  const files = [];
  const box = h("textarea", { testid, rows: "1", "aria-label": "Message", autocomplete: "off", spellcheck: "false" });
  const menu = h("ul", { class: "suggest", role: "listbox", hidden: true });
  const chips = h("div", { class: "chips" });
  const picker = h("input", { type: "file", multiple: true, hidden: true, testid: `${testid}-file` });
  const suffix = testid === "composer" ? "" : "thread-";
  const attach = h("button", { type: "button", class: "quiet icon", testid: `${suffix}attach`, "aria-label": "Attach files", title: "Attach files", onclick: () => picker.click() }, icon("clip"));
  const at = h("button", { type: "button", class: "quiet", "aria-label": "Mention RackMedic", title: "Mention RackMedic", onclick: () => insert("@rackmedic ") }, "@rackmedic");
  const go = h("button", { type: "submit", class: "primary", testid: `${suffix}send`, "aria-label": "Send" }, "Send");
  fill(form, menu, chips, box, h("div", { class: "tools" }, attach, at, h("span", { class: "grow faint" }, "Enter sends, Shift+Enter starts a line"), go), picker);

  const grow = () => {
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, 220)}px`;
  };

  const insert = (text) => {
    box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
    box.focus();
    changed();
  };

  const changed = () => {
    grow();
    list.look();
  };

  const chipped = () =>
    fill(chips, files.map((file, n) => h("span", { class: "chip" }, icon("file"), ` ${file.name} `, h("button", { type: "button", class: "quiet icon", "aria-label": `Remove ${file.name}`, onclick: () => { files.splice(n, 1); chipped(); } }, icon("cross")))));

  const add = (list) => {
    files.push(...list);
    chipped();
  };

  const submit = async () => {
    const text = box.value.trim();
    if (!text && !files.length) return;
    const command = isCommand(text.split(/\s/, 1)[0]) ? text.split(/\s/, 1)[0] : "";
    const attached = await Promise.all(files.map(encoded));
    box.value = "";
    files.length = 0;
    chipped();
    changed();
    const done = command
      ? await attempt("/control/command", { ...place(), command, text: text.slice(command.length).trim() })
      : await attempt("/control/say", { ...place(), text, files: attached });
    if (!done && !box.value) box.value = text;
    send?.(done, command ? null : text);
  };

  const list = completes(box, menu, complete);
  box.addEventListener("input", grow);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  box.addEventListener("paste", (event) => event.clipboardData.files.length && (event.preventDefault(), add(event.clipboardData.files)));
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => (event.preventDefault(), add(event.dataTransfer.files)));
  picker.addEventListener("change", () => (add(picker.files), (picker.value = "")));
  form.addEventListener("submit", (event) => (event.preventDefault(), submit()));
  return { box, placeholder: (text) => (box.placeholder = text), write: (text) => { box.value = text; box.focus(); grow(); } };
}
