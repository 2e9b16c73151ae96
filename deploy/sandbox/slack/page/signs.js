// Emoji for machines that have no font for them: small drawings, with the character itself kept in the text for readers and for copying.

import { h } from "/page/dom.js";

// sign: shape under it, its tone, and the strokes on it
const ROWS = `
✅ ☑ | square good | M5.5 10.5 9 14l6-7.5
✔ ✓ | none good | M4 10.5 8.5 15 16.5 5.5
❌ ✗ ✘ ✖ | none bad | M5 5l10 10M15 5 5 15
⚠ | triangle warn | M10 8v4M10 14.4v.1
🚨 ❗ | disc bad | M10 5.5V11M10 14.2v.1
🛑 ⛔ 🚫 | disc bad | M5.8 10h8.4
🔴 | disc bad |
🟠 | disc orange |
🟡 | disc warn |
🟢 | disc good |
🔵 | disc blue |
⚪ | ring dim |
⚫ | disc dim |
🟥 | square bad |
🟨 | square warn |
🟩 | square good |
🔲 ▪ | square dim |
🔹 | diamond blue |
🔸 | diamond orange |
⏳ ⌛ ⏱ 🕒 | ring dim | M10 5.5V10l3 2
⏸ | none dim | M7 4.5v11M13 4.5v11
🔍 🔎 🔬 | none blue | M8.5 3a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM12.6 12.6 17.5 17.5
🔧 🛠 ⚙ 🧰 | none dim | M17 5.5a4 4 0 0 1-5.3 4.3L5.5 16a1.8 1.8 0 0 1-2.6-2.6l6.2-6.2A4 4 0 0 1 14 2.5L11.7 5l.6 2.4 2.4.6Z
👀 👁 | none dim | M2 10s3-5 8-5 8 5 8 5-3 5-8 5-8-5-8-5ZM10 8a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z
💡 | none warn | M10 2.5a5 5 0 0 1 3 9V14H7v-2.5a5 5 0 0 1 3-9ZM7.8 17h4.400
🎫 🎟 | none blue | M2.5 6h15v2.5a1.6 1.6 0 0 0 0 3V14h-15v-2.5a1.6 1.6 0 0 0 0-3ZM12 6v8
🔒 🔐 | none dim | M5 9h10v8H5ZM7 9V6.5a3 3 0 0 1 6 0V9
🔓 | none dim | M5 9h10v8H5ZM7 9V6.5a3 3 0 0 1 5.8-1
🔑 | none warn | M6.5 10a3 3 0 1 1 0 .1ZM9.5 10H17v3M14 10v2
📝 ✏ | none dim | M4 16l1-4 8.5-8.5 3 3L8 15Z
📖 📘 📚 📜 📋 | none blue | M10 5.5C8 4 5.5 3.8 3 4v11c2.5-.2 5 0 7 1.5 2-1.5 4.5-1.7 7-1.5V4c-2.5-.2-5 0-7 1.5ZM10 5.5v11
📊 | none blue | M4 16V9M10 16V4M16 16v-5M2.5 17.5h15
📈 | none good | M3 15l5-5 3 3 6-7M13 6h4v4
📉 | none bad | M3 5l5 5 3-3 6 7M13 14h4v-4
🔁 🔄 | none blue | M4 10a6 6 0 0 1 10.5-4L16 8M16 3.5V8h-4.5M16 10a6 6 0 0 1-10.5 4L4 12M4 16.5V12h4.500
👍 | none warn | M6.5 9l3-6c1.5 0 2.2 1.2 1.8 2.8L10.8 8H16l-1 8H6.5ZM3 9h3.5v7H3Z
👎 | none warn | M13.5 11l-3 6c-1.5 0-2.2-1.2-1.8-2.8L9.2 12H4l1-8h8.5ZM17 11h-3.5V4H17Z
📎 🔗 | none dim | M12.5 6 7 11.5a1.8 1.8 0 0 0 2.5 2.5l5.5-5.5a3.5 3.5 0 0 0-5-5L4.5 9a5 5 0 0 0 7 7l5-5
📄 📁 📦 🗂 | none dim | M5 2.5h6.5L15 6v11.5H5ZM11.5 2.5V6H15
🩺 🚑 🏥 🩹 | square bad | M10 6v8M6 10h8
👤 👥 🕵 🧑 | none dim | M10 3.5a3.2 3.2 0 1 1 0 6.4 3.2 3.2 0 0 1 0-6.4ZM4 17c.5-4 3-5.5 6-5.5s5.5 1.5 6 5.500
🖼 | none blue | M3 4h14v12H3ZM3 13l4-4 4 4 2-2 4 4M13 7.5v.1
📌 📍 | none bad | M10 2.5a4.5 4.5 0 0 1 4.5 4.5c0 3.5-4.5 10-4.5 10S5.5 10.5 5.5 7A4.5 4.5 0 0 1 10 2.5ZM10 7v.1
🔥 | none orange | M10 2.5c.5 3 4.5 4.5 4.5 9a4.5 4.5 0 0 1-9 0c0-2 1-3 1.5-4.5 1 .5 1.5 1.5 1.5 2.5 1.5-1.5 2-4 1.5-7Z
⚡ | none warn | M11 2.5 4.5 11.5H9L8 17.5l7-9.5h-4.5Z
🤖 | square blue | M7.5 9v1M12.5 9v1M7 13.5h6
✋ 🙋 🤝 | none warn | M6 10V5M9 9V3.5M12 9V4.5M15 10.5V7M6 10l-1.5 1c1 4 2.5 6 6 6s4.5-3 4.5-6.500
❓ ❔ | disc blue | M7.8 8a2.2 2.2 0 1 1 3 2c-.6.3-.8.7-.8 1.5M10 14.4v.1
ℹ | disc blue | M10 9v5M10 6v.1
💬 💭 📨 📣 🔔 📫 ✉ | none blue | M3 4h14v9.5H9L5.5 17v-3.5H3Z
🎉 🚀 🆕 ✨ | none warn | M10 3v4M10 13v4M3 10h4M13 10h4M5.5 5.5l2 2M12.5 12.5l2 2M14.5 5.5l-2 2M7.5 12.5l-2 2
➖ | none dim | M4 10h12`;

const SHAPES = {
  disc: "M10 2a8 8 0 1 1 0 16 8 8 0 0 1 0-16Z",
  ring: "M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15Z",
  square: "M5 2.5h10a2.5 2.5 0 0 1 2.5 2.5v10a2.5 2.5 0 0 1-2.5 2.5H5A2.5 2.5 0 0 1 2.5 15V5A2.5 2.5 0 0 1 5 2.5Z",
  triangle: "M10 2.5 18.5 17.5h-17Z",
  diamond: "M10 3l7 7-7 7-7-7Z",
};
const FACE = "M10 2.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15ZM7.3 8v.2M12.7 8v.2M6.5 12c1.8 2.4 5.2 2.4 7 0";

const DRAWN = new Map();
for (const row of ROWS.trim().split("\n")) {
  const [signs, look, strokes] = row.split("|").map((part) => part.trim());
  const [shape, tone] = look.split(" ");
  for (const sign of signs.split(" ")) DRAWN.set(sign, { shape, tone, strokes });
}

function hasEmoji() {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  pen.canvas.width = pen.canvas.height = 24;
  pen.font = "16px sans-serif";
  pen.fillText("🔴", 0, 18);
  const pixels = pen.getImageData(0, 0, 24, 24).data;
  return pixels.some((value, n) => n % 4 === 0 && value > 100 && pixels[n + 3] > 100);
}

const SHOWN = hasEmoji();
const PICTURES = /(?:\p{Emoji_Presentation}|\p{Extended_Pictographic}\uFE0F|[✅✔✓☑❌✗✘⚠⏱⏸ℹ✏🛠🖼🕵⚙✉])\uFE0F?/gu;

function path(d, kind) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", "path");
  node.setAttribute("d", d);
  node.setAttribute("class", kind);
  return node;
}

function drawing(sign) {
  const { shape, tone, strokes } = DRAWN.get(sign.replaceAll("\uFE0F", "")) ?? { shape: "none", tone: "warn", strokes: FACE };
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("class", `drawn ${tone}`);
  svg.setAttribute("aria-hidden", "true");
  const filled = SHAPES[shape] && shape !== "ring";
  if (SHAPES[shape]) svg.append(path(SHAPES[shape], filled ? "filled" : "line"));
  if (strokes) svg.append(path(strokes, filled ? "on" : "line"));
  return h("span", { class: "sign" }, svg, h("span", { class: "unseen" }, sign));
}

// Text as it can be shown here: itself where the font has emoji, else pieces with drawings between them.
export function signed(text) {
  if (SHOWN) return [text];
  const pieces = [];
  let from = 0;
  for (const found of text.matchAll(PICTURES)) {
    if (found.index > from) pieces.push(text.slice(from, found.index));
    pieces.push(drawing(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

// The same where only text can stand, as in a list of choices: what cannot be drawn is left out.
export const unsigned = (text) => (SHOWN ? text : text.replace(PICTURES, "").trim());
