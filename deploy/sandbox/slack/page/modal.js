// The modal in front of this person: a real <dialog>, so focus stays in it and Escape closes it.

import { blocks } from "/page/blocks.js";
import { $, attempt, fill, h, icon } from "/page/dom.js";
import { emoji } from "/page/text.js";

let current = null;

export function showModal(view, me) {
  const box = $("modal");
  const same = current && view && current.view.id === view.id;
  current = view && { view, me, values: same ? current.values : {}, errors: {} };
  if (!view) return box.open && box.close("done");
  draw();
  if (!box.open) {
    box.returnValue = "";
    box.showModal();
  }
}

function draw() {
  const { view, me, values, errors } = current;
  const act = { me, values, errors, fire: (item, block, value) => attempt("/control/click", { user: me, view_id: view.id, action_id: item.action_id, value: value ?? null, values }) };
  const submit = async (event) => {
    event.preventDefault();
    const button = event.target.querySelector("[data-testid=modal-submit]");
    if (button) button.disabled = true;
    const done = await attempt("/control/submit", { user: me, view_id: view.id, values });
    if (button) button.disabled = false;
    if (done?.errors && current?.view.id === view.id) {
      current.errors = done.errors;
      draw();
    }
  };
  fill(
    $("modal"),
    h(
      "form",
      { method: "dialog", onsubmit: submit, novalidate: true },
      h("header", {}, h("h2", { id: "modal-title" }, emoji(view.title.text)), h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: dismiss }, icon("cross"))),
      h("div", { class: "body", tabindex: "0", role: "group", "aria-labelledby": "modal-title" }, blocks(view.blocks, act)),
      h(
        "footer",
        {},
        h("button", { type: "button", class: "plain", testid: "modal-close", onclick: dismiss }, view.close ? emoji(view.close.text) : "Cancel"),
        view.submit && h("button", { type: "submit", class: "primary", testid: "modal-submit" }, emoji(view.submit.text)),
      ),
    ),
  );
  $("modal").querySelector(".body input, .body textarea, .body select")?.focus();
}

function dismiss() {
  if (current) attempt("/control/close", { user: current.me, view_id: current.view.id });
}

$("modal").addEventListener("cancel", (event) => {
  event.preventDefault();
  dismiss();
});
