// Block Kit as DOM. `act` says what a click does; values that people put in are kept in `act.values` by block and action.

import { $, fill, grid, h, link, verbatim } from "/page/dom.js";
import { follow } from "/page/links.js";
import { emoji, emojiOf, emojiText, group, markdown, mention, mrkdwn, textObject } from "/page/text.js";

let people = () => [];
export const knowPeople = (list) => (people = list);

export function blocks(list, act) {
  return h("div", { class: "blocks" }, (list ?? []).map((block) => (BLOCKS[block.type] ?? unknown)(block, act)));
}

const unknown = (block) => h("p", { class: "faint" }, `[${block.type} block]`);

const BLOCKS = {
  section: (block, act) =>
    h(
      "div",
      { class: "section" },
      h("div", { class: "grow" }, textObject(block.text), block.fields && h("div", { class: "fields" }, block.fields.map((field) => h("div", {}, textObject(field))))),
      block.accessory && element(block.accessory, block, act),
    ),
  header: (block) => h("h3", { class: "header" }, emoji(block.text.text)),
  context: (block) => h("div", { class: "context" }, block.elements.map((item) => (item.type === "image" ? picture(item, "small") : textObject(item)))),
  actions: (block, act) => h("div", { class: "actions" }, block.elements.map((item) => element(item, block, act))),
  context_actions: (block, act) => h("div", { class: "actions" }, block.elements.map((item) => element(item, block, act))),
  divider: () => h("hr"),
  image: (block) => h("figure", {}, block.title && h("figcaption", {}, textObject(block.title)), picture(block, "large")),
  markdown: (block) => markdown(block.text),
  rich_text: (block) => h("div", { class: "text" }, block.elements.map(rich)),
  table: (block) => table(block),
  input: (block, act) =>
    h(
      "label",
      { class: "input" },
      h("span", { class: "label" }, emoji(block.label.text), block.optional && h("span", { class: "faint" }, " (optional)")),
      element(block.element, block, act),
      block.hint && h("span", { class: "hint" }, emoji(block.hint.text)),
      h("span", { class: "wrong", testid: `error-${block.block_id}`, role: "alert", hidden: !act.errors?.[block.block_id] }, act.errors?.[block.block_id] ?? ""),
    ),
  task_card: (block) =>
    h(
      "div",
      { class: `task ${block.status ?? "pending"}` },
      h("span", { class: "mark", title: block.status }, TASK[block.status] ?? "○"),
      h("div", {}, h("span", {}, emoji(block.title)), richOrText(block.details, "faint"), richOrText(block.output)),
    ),
  plan: (block) => h("div", { class: "plan" }, h("strong", {}, emoji(block.title)), (block.tasks ?? []).map((task) => BLOCKS.task_card(task))),
  alert: (block) => h("div", { class: `alert ${block.level ?? "default"}` }, textObject(block.text)),
  card: (block, act) =>
    h(
      "div",
      { class: "card" },
      block.hero_image && picture(block.hero_image, "large"),
      h("strong", {}, textObject(block.title)),
      h("div", { class: "faint" }, textObject(block.subtitle)),
      textObject(block.body),
      block.actions && h("div", { class: "actions" }, block.actions.map((item) => element(item, block, act))),
    ),
  carousel: (block, act) => h("div", { class: "carousel" }, block.elements.map((card) => BLOCKS.card(card, act))),
  container: (block, act) => h("div", { class: "card" }, block.title && h("strong", {}, textObject(block.title)), blocks(block.child_blocks ?? block.blocks, act)),
};

const TASK = { pending: "○", in_progress: "◔", complete: "●", error: "✕" };

function richOrText(value, kind = "") {
  if (!value) return null;
  return h("div", { class: kind }, typeof value === "string" ? emoji(value) : (value.elements ?? []).map(rich));
}

function table(block) {
  const align = (n) => ({ left: "", center: "mid", right: "end" })[block.column_settings?.[n]?.align ?? "left"];
  const cell = (item) => (item.type === "rich_text" ? item.elements.map(rich) : emoji(item.text ?? ""));
  const [head, ...rest] = block.rows.map((items) => items.map((item, n) => [align(n), cell(item)]));
  return grid(head, rest);
}

// Pictures come from this server; anything else is named instead of fetched.
function picture(item, size) {
  const own = item.slack_file?.id ?? /\/files-pri\/(\w+)\//.exec(item.slack_file?.url ?? item.image_url ?? "")?.[1];
  if (own) return h("img", { class: size, src: `/control/file/${own}`, alt: item.alt_text ?? "" });
  return h("span", { class: "faint" }, emoji("🖼 "), item.image_url ? link(item.image_url, item.alt_text ?? item.image_url) : item.alt_text);
}

function styled(node, style = {}) {
  if (style.code) node = h("code", {}, node);
  if (style.bold) node = h("strong", {}, node);
  if (style.italic) node = h("em", {}, node);
  if (style.strike) node = h("s", {}, node);
  return node;
}

function rich(item) {
  const inside = (item.elements ?? []).map(rich);
  switch (item.type) {
    case "rich_text_section":
      return h("div", {}, inside);
    case "rich_text_preformatted":
      return verbatim(inside);
    case "rich_text_quote":
      return h("blockquote", {}, inside);
    case "rich_text_list":
      return h(item.style === "ordered" ? "ol" : "ul", { class: `indent-${item.indent ?? 0}` }, inside.map((one) => h("li", {}, one)));
    case "user":
      return mention(item.user_id);
    case "usergroup":
      return group(item.usergroup_id);
    case "channel":
      return mrkdwn(`<#${item.channel_id}>`);
    case "broadcast":
      return h("span", { class: "mention mine" }, `@${item.range}`);
    case "emoji":
      return emojiOf(item.name);
    case "link":
      return styled(link(item.url, item.text ?? item.url), item.style);
    case "text":
      return styled(h("span", { class: "keep" }, item.text), item.style);
    default:
      return h("span", {}, item.text ?? "");
  }
}

function element(item, block, act) {
  const make = ELEMENTS[item.type];
  return make ? make(item, block, act) : h("span", { class: "faint" }, `[${item.type}]`);
}

const set = (act, block, item, value) => ((act.values[block.block_id] ??= {})[item.action_id] = value);
const get = (act, block, item) => act.values[block.block_id]?.[item.action_id];

// In a message every choice is told at once; in a modal only where the block asks for it.
function chosen(act, block, item, value) {
  set(act, block, item, value);
  if (block.type !== "input" || block.dispatch_action) act.fire(item, block, value);
}

async function press(item, block, act, node) {
  if (item.confirm && !(await confirmed(item.confirm))) return;
  node.disabled = true;
  node.classList.add("busy");
  try {
    await act.fire(item, block, item.value);
  } finally {
    node.disabled = false;
    node.classList.remove("busy");
  }
}

function confirmed(ask) {
  const box = $("confirm");
  return new Promise((resolve) => {
    const button = (text, value, kind, testid) => h("button", { class: kind, testid, onclick: () => box.close(value) }, text);
    fill(
      box,
      h("h2", { id: "confirm-title" }, emoji(ask.title.text)),
      h("div", {}, textObject(ask.text)),
      h(
        "footer",
        {},
        button(ask.deny ? emoji(ask.deny.text) : "Cancel", "no", "plain", "confirm-no"),
        button(ask.confirm ? emoji(ask.confirm.text) : "Yes", "yes", ask.style === "danger" ? "danger" : "primary", "confirm-yes"),
      ),
    );
    box.returnValue = "no";
    box.addEventListener("close", () => resolve(box.returnValue === "yes"), { once: true });
    box.showModal();
  });
}

const label = (option) => emojiText(option.text.text);

function select(item, block, act, choices, initial, many = false) {
  const now = get(act, block, item) ?? initial;
  const on = (value) => (many ? (now ?? []).includes(value) : now === value);
  const option = ([value, text]) => h("option", { value, selected: on(value) }, text);
  const first = many ? [] : [h("option", { value: "", disabled: true, selected: now === undefined || now === null }, item.placeholder?.text ?? "Choose…")];
  const read = (node) => (many ? [...node.selectedOptions].map((one) => one.value) : node.value);
  return h("select", { class: item.type === "overflow" ? "overflow" : undefined, "aria-label": item.placeholder?.text, multiple: many, testid: `input-${item.action_id}`, onchange: (event) => chosen(act, block, item, read(event.target)) }, first, choices.map(option));
}

const optionsOf = (item) => [...(item.options ?? []), ...(item.option_groups ?? []).flatMap((one) => one.options)].map((o) => [o.value, label(o)]);

function boxes(item, block, act, kind, initial) {
  const now = new Set([get(act, block, item) ?? initial].flat().filter(Boolean));
  const group = `${block.block_id}-${item.action_id}-${Math.random()}`;
  const changed = (event) => {
    const on = [...event.target.closest(".boxes").querySelectorAll("input:checked")].map((node) => node.value);
    chosen(act, block, item, kind === "radio" ? on[0] : on);
  };
  const row = (option) =>
    h("label", {}, h("input", { type: kind, name: group, value: option.value, checked: now.has(option.value), onchange: changed }), h("span", {}, textObject(option.text), option.description && h("small", { class: "faint" }, textObject(option.description))));
  return h("div", { class: "boxes", testid: `input-${item.action_id}` }, item.options.map(row));
}

function typing(item, block, act, type, initial = item.initial_value) {
  const now = get(act, block, item) ?? initial ?? "";
  const props = {
    testid: `input-${item.action_id}`,
    placeholder: item.placeholder?.text,
    maxlength: item.max_length ? String(item.max_length) : undefined,
    oninput: (event) => set(act, block, item, event.target.value),
    onkeydown: (event) => {
      if (event.key === "Enter" && block.dispatch_action && !item.multiline) {
        event.preventDefault();
        act.fire(item, block, event.target.value);
      }
    },
  };
  if (item.multiline) return h("textarea", { ...props, rows: "4" }, now);
  const node = h("input", { ...props, type, step: item.is_decimal_allowed ? "any" : undefined });
  node.value = now;
  return node;
}

const stamp = (seconds) => (seconds ? new Date(seconds * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16) : undefined);

function picker(item, block, act, type, initial) {
  const node = h("input", {
    type,
    testid: `input-${item.action_id}`,
    onchange: (event) => chosen(act, block, item, type === "datetime-local" ? Math.floor(new Date(event.target.value).getTime() / 1000) : event.target.value),
  });
  node.value = initial ?? "";
  return node;
}

const ELEMENTS = {
  button: (item, block, act) => {
    if (item.visible_to_user_ids && !item.visible_to_user_ids.includes(act.me)) return null;
    const node = h("button", {
      type: "button",
      class: item.style ?? "plain",
      testid: `button-${item.action_id}`,
      "data-action": item.action_id,
      "aria-label": item.accessibility_label,
      onclick: () => {
        if (item.url && /^https?:/i.test(item.url) && !follow(item.url)) window.open(item.url, "_blank", "noopener,noreferrer");
        press(item, block, act, node);
      },
    }, emoji(item.text.text));
    return node;
  },
  icon_button: (item, block, act) => ELEMENTS.button({ ...item, text: { text: item.text?.text ?? item.icon } }, block, act),
  feedback_buttons: (item, block, act) => h("span", {}, [item.positive_button, item.negative_button].map((one) => ELEMENTS.button({ ...one, action_id: item.action_id }, block, act))),
  static_select: (item, block, act) => select(item, block, act, optionsOf(item), item.initial_option?.value),
  multi_static_select: (item, block, act) => select(item, block, act, optionsOf(item), item.initial_options?.map((o) => o.value), true),
  overflow: (item, block, act) => select({ ...item, placeholder: { text: "⋯" } }, { ...block, type: "actions" }, act, optionsOf(item), undefined),
  users_select: (item, block, act) => select(item, block, act, people().map((one) => [one.id, one.real_name]), item.initial_user),
  multi_users_select: (item, block, act) => select(item, block, act, people().map((one) => [one.id, one.real_name]), item.initial_users, true),
  radio_buttons: (item, block, act) => boxes(item, block, act, "radio", item.initial_option?.value),
  checkboxes: (item, block, act) => boxes(item, block, act, "checkbox", item.initial_options?.map((o) => o.value)),
  plain_text_input: (item, block, act) => typing(item, block, act, "text"),
  number_input: (item, block, act) => typing(item, block, act, "number"),
  email_text_input: (item, block, act) => typing(item, block, act, "email"),
  url_text_input: (item, block, act) => typing(item, block, act, "url"),
  datepicker: (item, block, act) => picker(item, block, act, "date", item.initial_date),
  timepicker: (item, block, act) => picker(item, block, act, "time", item.initial_time),
  datetimepicker: (item, block, act) => picker(item, block, act, "datetime-local", stamp(item.initial_date_time)),
  image: (item) => picture(item, "thumb"),
};
