// What is broken now with what was asked, as a case file for `rackmedic diagnose --sandbox` and the benchmark.

import { $, attempt, fill, h, icon, toast } from "/page/dom.js";

const MOST = 200_000;

// The report's text files go with it; pictures do not.
async function attachments(message) {
  const texts = (message?.files ?? []).filter((file) => /^text\//.test(file.mimetype ?? "") && file.size < MOST);
  return Promise.all(texts.map(async (file) => ({ name: file.name, text: await (await fetch(`/control/file/${file.id}`)).text() })));
}

// `report` answers {message, text, author}: what somebody asked in the thread that is open, or last in this channel.
export async function caseDialog(report) {
  const { message, text, author } = report();
  const files = await attachments(message);
  const asked = h("textarea", { rows: "4", testid: "case-text", "aria-label": "What was asked" });
  asked.value = text;
  const shown = h("pre", { class: "file-text", testid: "case-yaml", tabindex: "0" });
  let file = null;
  const make = async () => {
    file = await attempt("/cluster/case", { text: asked.value, author, attachments: files });
    fill(shown, file?.yaml ?? "");
    fill(how, file ? `rackmedic diagnose --sandbox ${file.name}` : "");
  };
  const how = h("code", {});
  const copy = async () => {
    await navigator.clipboard.writeText(file.yaml);
    toast("Copied.", "good");
  };
  const save = () => {
    const url = URL.createObjectURL(new Blob([file.yaml], { type: "application/yaml" }));
    h("a", { href: url, download: file.name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  asked.addEventListener("change", make);
  const box = $("case");
  fill(
    box,
    h("header", {}, h("h2", { id: "case-title" }, "Save as a case"), h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: () => box.close() }, icon("cross"))),
    h("div", { class: "body" }, h("p", { class: "faint" }, "What is broken on the cluster now, with what somebody asked, as a file that is diagnosed again the same way, without this page."), h("label", { class: "input" }, h("span", { class: "label" }, "What was asked"), asked), files.length > 0 && h("p", { class: "hint" }, `With ${files.map((one) => one.name).join(", ")}`), shown, h("p", { class: "hint" }, "Then: ", how)),
    h("footer", {}, h("button", { type: "button", class: "plain", testid: "case-copy", onclick: copy }, "Copy"), h("button", { type: "button", class: "primary", testid: "case-save", onclick: save }, "Download")),
  );
  await make();
  if (file) box.showModal();
}
