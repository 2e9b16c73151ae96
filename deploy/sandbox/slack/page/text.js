// Slack's mrkdwn, standard markdown and emoji shortcodes, as DOM nodes.

import { grid, h, link, verbatim } from "/page/dom.js";
import { signed, unsigned } from "/page/signs.js";

const EMOJI = Object.fromEntries(
  ("white_check_mark ✅ heavy_check_mark ✔️ ballot_box_with_check ☑️ x ❌ warning ⚠️ rotating_light 🚨 octagonal_sign 🛑 no_entry ⛔ " +
    "no_entry_sign 🚫 hourglass ⌛ hourglass_flowing_sand ⏳ stopwatch ⏱️ clock3 🕒 mag 🔍 mag_right 🔎 microscope 🔬 wrench 🔧 hammer_and_wrench 🛠️ gear ⚙️ " +
    "eyes 👀 red_circle 🔴 large_green_circle 🟢 large_yellow_circle 🟡 large_orange_circle 🟠 large_blue_circle 🔵 white_circle ⚪ black_circle ⚫ " +
    "large_green_square 🟩 large_red_square 🟥 large_yellow_square 🟨 arrow_right ➡️ arrow_up ⬆️ arrow_down ⬇️ information_source ℹ️ bulb 💡 ticket 🎫 lock 🔒 unlock 🔓 key 🔑 memo 📝 book 📖 " +
    "books 📚 bar_chart 📊 chart_with_upwards_trend 📈 chart_with_downwards_trend 📉 robot_face 🤖 wave 👋 +1 👍 thumbsup 👍 -1 👎 tada 🎉 zap ⚡ fire 🔥 " +
    "thermometer 🌡️ question ❓ grey_question ❔ exclamation ❗ repeat 🔁 arrows_counterclockwise 🔄 link 🔗 package 📦 stethoscope 🩺 ambulance 🚑 " +
    "hospital 🏥 adhesive_bandage 🩹 broom 🧹 electric_plug 🔌 computer 💻 desktop_computer 🖥️ file_folder 📁 page_facing_up 📄 paperclip 📎 raised_hand ✋ " +
    "handshake 🤝 bell 🔔 mailbox 📫 speech_balloon 💬 thought_balloon 💭 bust_in_silhouette 👤 busts_in_silhouette 👥 shield 🛡️ see_no_evil 🙈 small_blue_diamond 🔹 small_orange_diamond 🔸 " +
    "brain 🧠 construction 🚧 sos 🆘 new 🆕 skull 💀 snowflake ❄️ vertical_traffic_light 🚦 world_map 🗺️ pushpin 📌 rocket 🚀 seedling 🌱 detective 🕵️ scroll 📜 black_square_button 🔲 black_small_square ▪️ heavy_minus_sign ➖")
    .split(" ")
    .reduce((rows, word, n, all) => (n % 2 ? rows : [...rows, [word, all[n + 1]]]), []),
);

const named = (text) => text.replace(/:([a-z0-9_+-]+):/g, (whole, name) => EMOJI[name] ?? whole);
export const emoji = (text) => signed(named(text));
export const emojiText = (text) => unsigned(named(text));
export const emojiOf = (name) => emoji(`:${name}:`);
const decoded = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
const plain = (text) => emoji(decoded(text));

let names = { user: (id) => id, group: (id) => id, channel: (id) => id, me: () => "" };
export const know = (lookup) => (names = lookup);

export function mention(id) {
  return h("span", { class: id === names.me() ? "mention mine" : "mention" }, `@${names.user(id)}`);
}

export function group(id) {
  return h("span", { class: "mention" }, `@${names.group(id)}`);
}

function angled(inside) {
  const [target, label] = inside.split("|");
  if (target.startsWith("@")) return mention(target.slice(1));
  if (target.startsWith("#")) return h("span", { class: "mention" }, `#${label ?? names.channel(target.slice(1))}`);
  if (target.startsWith("!subteam^")) return group(target.slice(9));
  if (target.startsWith("!date^")) return when(target.split("^"), label);
  if (target.startsWith("!")) return h("span", { class: "mention mine" }, `@${target.slice(1)}`);
  return /^(https?:|mailto:|tel:)/i.test(target) ? link(decoded(target), ...plain(label ?? target)) : plain(`<${inside}>`);
}

function when([, seconds, format], fallback) {
  const at = new Date(Number(seconds) * 1000);
  if (Number.isNaN(at.getTime())) return h("span", {}, plain(fallback ?? ""));
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const text = (format ?? "{date_short} {time}")
    .replace(/\{date_num\}/g, at.toLocaleDateString("sv"))
    .replace(/\{date[a-z_]*\}/g, at.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" }))
    .replace(/\{time_secs\}/g, at.toLocaleTimeString())
    .replace(/\{time\}/g, time)
    .replace(/\{ago\}/g, time);
  return h("time", { datetime: at.toISOString(), title: at.toISOString() }, text);
}

const MARKS = [
  [/^`([^`\n]+)`/, (text) => h("code", {}, decoded(text))],
  [/^<([^<>\n]+)>/, (text) => angled(text)],
  [/^\*([^*\n]+)\*(?![\p{L}\p{N}])/u, (text) => h("strong", {}, inline(text))],
  [/^_([^_\n]+)_(?![\p{L}\p{N}])/u, (text) => h("em", {}, inline(text))],
  [/^~([^~\n]+)~(?![\p{L}\p{N}])/u, (text) => h("s", {}, inline(text))],
];

function inline(text) {
  const nodes = [];
  let loose = "";
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at);
    const opens = at === 0 || /[\s([{"'*_~>,.:;/—–-]/.test(text[at - 1]) || "<`".includes(text[at]);
    const hit = opens && "`<*_~".includes(text[at]) && MARKS.map(([pattern, make]) => [pattern.exec(rest), make]).find(([found]) => found);
    if (hit) {
      if (loose) nodes.push(plain(loose));
      loose = "";
      nodes.push(hit[1](hit[0][1]));
      at += hit[0][0].length;
    } else {
      loose += text[at++];
    }
  }
  if (loose) nodes.push(plain(loose));
  return nodes;
}

const lines = (rows, make) => rows.flatMap((row, n) => (n ? [h("br"), ...make(row)] : make(row)));

function paragraphs(text) {
  const out = [];
  let quote = [];
  let open = [];
  const flush = () => {
    if (quote.length) out.push(h("blockquote", {}, lines(quote, inline)));
    if (open.length) out.push(h("div", {}, lines(open, inline)));
    quote = [];
    open = [];
  };
  for (const row of text.split("\n")) {
    const quoted = /^(&gt;|>) ?(.*)$/.exec(row);
    if (quoted ? open.length : quote.length) flush();
    (quoted ? quote : open).push(quoted ? quoted[2] : row);
  }
  flush();
  return out;
}

// mrkdwn as Slack writes it: *bold* _italic_ `code` ```block``` > quote <url|label> <@U…>
export function mrkdwn(text) {
  return h(
    "div",
    { class: "text" },
    text
      .split(/```\n?([\s\S]*?)\n?```/)
      .map((piece, n) => (n % 2 ? verbatim(decoded(piece)) : paragraphs(n ? piece.replace(/^\n/, "") : piece)))
      .flat(),
  );
}

export function textObject(object) {
  if (!object) return null;
  if (typeof object === "string") return emoji(object);
  return object.type === "mrkdwn" ? mrkdwn(object.text) : h("span", {}, object.emoji === false ? object.text : emoji(object.text));
}

const MARKDOWN = [
  [/^`([^`\n]+)`/, (found) => h("code", {}, found[1])],
  [/^\*\*([^\n]+?)\*\*/, (found) => h("strong", {}, marked(found[1]))],
  [/^\*([^*\n]+)\*/, (found) => h("em", {}, marked(found[1]))],
  [/^_([^_\n]+)_/, (found) => h("em", {}, marked(found[1]))],
  [/^~~([^\n]+?)~~/, (found) => h("s", {}, marked(found[1]))],
  [/^!?\[([^\]\n]*)\]\(([^)\s]+)\)/, (found) => link(found[2], found[1] || found[2])],
  [/^<((?:[@#!]|https?:)[^<>\n]+)>/, (found) => angled(found[1])],
];

function marked(text) {
  const nodes = [];
  let loose = "";
  for (let at = 0; at < text.length; ) {
    const word = text[at] === "_" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? "");
    const hit = !word && "`*_~![<".includes(text[at]) && MARKDOWN.map(([pattern, make]) => [pattern.exec(text.slice(at)), make]).find(([found]) => found);
    if (hit) {
      if (loose) nodes.push(plain(loose));
      loose = "";
      nodes.push(hit[1](hit[0]));
      at += hit[0][0].length;
    } else {
      loose += text[at++];
    }
  }
  if (loose) nodes.push(plain(loose));
  return nodes;
}

const cells = (row) => row.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

// Standard markdown, as in the markdown block.
export function markdown(text) {
  const out = h("div", { class: "text markdown" });
  const rows = text.split("\n");
  for (let n = 0; n < rows.length; ) {
    const row = rows[n];
    const take = (pattern) => {
      const taken = [];
      for (let found; n < rows.length && (found = pattern.exec(rows[n])); n++) taken.push(found[1]);
      return taken;
    };
    if (row.startsWith("```")) {
      const end = rows.findIndex((other, m) => m > n && other.startsWith("```"));
      out.append(verbatim(rows.slice(n + 1, end < 0 ? undefined : end).join("\n")));
      n = end < 0 ? rows.length : end + 1;
    } else if (/^#{1,6} /.test(row)) {
      out.append(h("h4", {}, marked(row.replace(/^#+ /, ""))));
      n++;
    } else if (/^\s*[-*+] /.test(row)) {
      out.append(h("ul", {}, take(/^\s*[-*+] (.*)$/).map((item) => h("li", {}, marked(item)))));
    } else if (/^\s*\d+[.)] /.test(row)) {
      out.append(h("ol", {}, take(/^\s*\d+[.)] (.*)$/).map((item) => h("li", {}, marked(item)))));
    } else if (row.startsWith(">")) {
      out.append(h("blockquote", {}, lines(take(/^> ?(.*)$/), marked)));
    } else if (row.includes("|") && /^[\s|:-]+$/.test(rows[n + 1] ?? "") && rows[n + 1].includes("-")) {
      const head = cells(row);
      n += 2;
      const body = take(/^(.*\|.*)$/).map(cells);
      const filled = (row) => row.map((text) => ["", marked(text)]);
      out.append(grid(filled(head), body.map(filled)));
    } else if (!row.trim()) {
      n++;
    } else if (/^(-{3,}|\*{3,})$/.test(row.trim())) {
      out.append(h("hr"));
      n++;
    } else {
      const taken = [];
      while (n < rows.length && rows[n].trim() && (taken.length === 0 || !/^(```|#{1,6} |\s*[-*+] |\s*\d+[.)] |>)/.test(rows[n]))) taken.push(rows[n++]);
      out.append(h("p", {}, lines(taken, marked)));
    }
  }
  return out;
}
