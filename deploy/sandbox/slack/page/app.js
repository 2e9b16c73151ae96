// The client: one person's view of the workspace, kept current by the change stream.

import { blocks, knowPeople } from "/page/blocks.js";
import { caseDialog } from "/page/case.js";
import { nodeNames, refresh, watchCluster } from "/page/cluster.js";
import { hostOffers } from "/page/completion.js";
import { composer } from "/page/compose.js";
import { $, ask, attempt, fill, h, icon, toast } from "/page/dom.js";
import { closeInspector, inspect, inspecting } from "/page/inspector.js";
import { copyLink, followsLinks, placeOf } from "/page/links.js";
import { showModal } from "/page/modal.js";
import { emojiOf, know, mrkdwn } from "/page/text.js";
import { advanceTour, readStories, storyList } from "/page/tour.js";

const state = { me: "", users: {}, groups: [], channels: [], team: {}, teams: {}, app: {}, messages: {}, unread: {}, channel: "", thread: "", tab: "messages", home: null, statuses: {}, prompts: {}, values: {}, drafts: {} };
const BOT = () => Object.values(state.users).find((user) => user.is_bot) ?? {};
const here = () => state.channels.find((channel) => channel.id === state.channel);
const all = (channel = state.channel) => state.messages[channel] ?? {};
const ordered = (rows) => rows.sort((a, b) => (a.ts < b.ts ? -1 : 1));
const isReply = (message) => message.thread_ts && message.thread_ts !== message.ts;

know({
  user: (id) => state.users[id]?.name ?? id,
  group: (id) => state.groups.find((group) => group.id === id)?.handle ?? id,
  channel: (id) => state.channels.find((channel) => channel.id === id)?.name ?? id,
  me: () => state.me,
});
knowPeople(() => Object.values(state.users).filter((user) => !user.is_bot && !user.deleted));

function clock(ts) {
  const at = new Date(Number(ts) * 1000);
  const today = at.toDateString() === new Date().toDateString();
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return h("time", { datetime: at.toISOString(), title: at.toLocaleString() }, today ? time : `${at.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}`);
}

const initials = (user) => (user?.real_name ?? "?").split(" ").map((word) => word[0]).slice(0, 2).join("");
const shade = (id) => [...id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 7;

function avatar(user) {
  if (user?.is_bot) return h("img", { class: "avatar", src: "/page/icon.svg", alt: "" });
  return h("span", { class: `avatar shade-${shade(user?.id ?? "?")}`, "aria-hidden": "true" }, initials(user));
}

function body(message) {
  const act = {
    me: state.me,
    values: (state.values[message.ts] ??= {}),
    fire: (item, block, value) => attempt("/control/click", { user: state.me, message_ts: message.ts, action_id: item.action_id, block_id: block.block_id, value: value ?? null, values: state.values[message.ts] }),
  };
  const shown = message.blocks?.length ? blocks(message.blocks, act) : message.text ? mrkdwn(message.text) : null;
  return [shown, (message.attachments ?? []).map((one) => h("div", { class: "attachment" }, one.blocks?.length ? blocks(one.blocks, act) : mrkdwn(one.text ?? one.fallback ?? "")))];
}

function fileCard(file) {
  const where = `/control/file/${file.id}`;
  if (file.mimetype?.startsWith("image/")) return h("a", { href: where, target: "_blank", class: "picture" }, h("img", { class: "large", src: where, alt: file.alt_txt || file.title || file.name }));
  return h("a", { href: where, target: "_blank", class: "file", testid: "file" }, icon("file"), h("span", {}, h("strong", {}, file.title ?? file.name), h("small", { class: "faint" }, `${file.name} · ${size(file.size)}`)));
}

const size = (bytes) => (bytes < 1024 ? `${bytes} bytes` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} kB` : `${(bytes / 1048576).toFixed(1)} MB`);

function tools(message) {
  if (message.is_ephemeral) return null;
  const shortcuts = (state.app.shortcuts ?? []).filter((one) => one.type === "message");
  const run = (one) => attempt("/control/shortcut", { user: state.me, channel: state.channel, message_ts: message.ts, callback_id: one.callback_id });
  const react = (name) => attempt("/control/react", { user: state.me, channel: state.channel, ts: message.ts, name });
  return h(
    "div",
    { class: "tools" },
    h("button", { class: "quiet icon", testid: "copy-link", "aria-label": "Copy a link to this message", title: "Copy a link to this message", onclick: () => copyLink(state.channel, message) }, icon("link")),
    h("button", { class: "quiet icon", "aria-label": "React with thumbs up", title: "React with thumbs up", onclick: () => react("+1") }, emojiOf("+1")),
    !isReply(message) && h("button", { class: "quiet", testid: "reply", onclick: () => openThread(message.ts, true) }, "Reply"),
    shortcuts.map((one) => h("button", { class: "quiet", testid: `shortcut-${one.callback_id}`, onclick: () => run(one) }, one.name)),
  );
}

function row(message, inThread) {
  const user = state.users[message.user];
  const replies = inThread ? 0 : ordered(Object.values(all())).filter((other) => other.thread_ts === message.ts && isReply(other) && !other.is_ephemeral);
  return h(
    "li",
    { class: `message${message.is_ephemeral ? " ephemeral" : ""}`, testid: message.is_ephemeral ? "ephemeral" : "message", "data-ts": message.ts, "data-user": message.user },
    avatar(user),
    h(
      "div",
      { class: "content" },
      h("div", { class: "by" }, h("strong", {}, user?.is_bot ? state.app.name : (user?.real_name ?? message.user)), user?.is_bot && h("span", { class: "app" }, "APP"), user && user.team_id !== state.team.id && h("span", { class: "app outside" }, "EXTERNAL"), clock(message.ts), message.edited && !user?.is_bot && h("span", { class: "faint" }, "(edited)")),
      message.is_ephemeral && h("p", { class: "only" }, "Only visible to you"),
      body(message),
      h("div", { class: "files" }, (message.files ?? []).map(fileCard)),
      h("div", { class: "reactions" }, (message.reactions ?? []).map((one) => h("span", { class: "reaction", title: one.users.map((id) => state.users[id]?.name).join(", ") }, emojiOf(one.name), ` ${one.count}`))),
      replies.length > 0 && h("button", { class: "quiet replies", testid: "open-thread", onclick: () => openThread(message.ts) }, h("strong", {}, `${replies.length} ${replies.length === 1 ? "reply" : "replies"}`), h("span", { class: "faint" }, " last ", clock(replies.at(-1).ts))),
    ),
    tools(message),
  );
}

// Redraw a list without losing the reader's place, their focus, or what they were typing.
function redraw(list, rows, inThread) {
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60;
  const focus = document.activeElement?.closest?.("[data-ts]");
  const key = list.contains(focus) ? [focus.dataset.ts, document.activeElement.dataset.testid] : null;
  const known = new Map([...list.children].map((node) => [node.dataset.ts, node]));
  fill(list, rows.map((message) => {
    const print = JSON.stringify(message) + (inThread ? "" : Object.values(all()).filter((other) => other.thread_ts === message.ts).length);
    const old = known.get(message.ts);
    if (old?.print === print) return old;
    const node = row(message, inThread);
    node.print = print;
    return node;
  }));
  if (atEnd) list.scrollTop = list.scrollHeight;
  if (key) list.querySelector(`[data-ts="${key[0]}"] [data-testid="${CSS.escape(key[1] ?? "")}"]`)?.focus();
}

const EXAMPLES = ["@rackmedic job 4711 hangs, NCCL timeout", "@rackmedic training on gpu-001 became slow this morning", "@rackmedic is gpu-002 healthy?"];
let told = { stories: [], begin: () => {} };

function welcome() {
  const channel = here();
  const start = channel?.is_im ? `This is where you and ${state.app.name} talk.` : `This is the very beginning of #${channel?.name}.`;
  if (channel?.is_im) return h("li", { class: "welcome" }, h("h2", {}, start));
  const examples = EXAMPLES.map((text) => h("button", { class: "plain", onclick: () => main.write(text) }, text));
  if (!state.team.installed || !told.stories.length) return h("li", { class: "welcome" }, h("h2", {}, start), h("p", { class: "faint" }, `Mention ${state.app.name} and say what is wrong, for example:`), examples);
  const what = `A play Slack: the people are yours to be, the GPU nodes at the left are simulated, ${state.app.name} is the real bot. Begin with a story:`;
  return h("li", { class: "welcome" }, h("h2", {}, start), h("p", {}, what), storyList(told.stories, told.begin), h("p", { class: "faint" }, "Or break something yourself in the menu above, and write what somebody would see of it:"), examples);
}

// Of an agent the suggestions stand for the whole conversation; of an assistant for a thread, until somebody writes there.
function drawPrompts(id, thread, here) {
  const offered = state.prompts[`${state.channel}/${thread}`];
  const press = (one) => attempt("/control/prompt", { user: state.me, title: one.title, thread_ts: thread });
  $(id).hidden = !here || !offered?.prompts.length;
  fill($(id), h("span", {}, offered?.title), (offered?.prompts ?? []).map((one) => h("button", { class: "plain", testid: "prompt", onclick: () => press(one) }, one.title)));
}

// A click is a press and a release on one element: what is drawn anew between them would lose it, so drawing waits for the release.
let pressed = false;
let waiting = false;
document.addEventListener("pointerdown", () => { pressed = true; }, true);
for (const end of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(end, released, true);
addEventListener("blur", released);

function released() {
  setTimeout(() => {
    pressed = false;
    if (waiting) drawMessages();
  });
}

function drawMessages() {
  waiting = pressed;
  if (waiting) return;
  const rows = ordered(Object.values(all()));
  redraw($("messages"), rows.filter((message) => !isReply(message)), false);
  if (!rows.length) fill($("messages"), welcome());
  drawPrompts("prompts", "", here()?.is_im && state.tab === "messages");
  drawPrompts("thread-prompts", state.thread, Boolean(state.thread));
  $("thread").hidden = !state.thread;
  document.body.classList.toggle("threaded", Boolean(state.thread));
  if (!state.thread) return;
  redraw($("replies"), rows.filter((message) => message.ts === state.thread || message.thread_ts === state.thread), true);
  const status = state.statuses[`${state.channel}/${state.thread}`];
  $("status").hidden = !status;
  $("status").textContent = status ? `${state.app.name} ${status}` : "";
}

function drawSide() {
  const item = (id, text, testid) =>
    h("li", {}, h("button", { class: id === state.channel ? "on" : state.unread[id] ? "unread" : "", testid, "aria-current": id === state.channel ? "page" : undefined, onclick: () => openChannel(id) }, h("span", {}, text), state.unread[id] ? h("b", { class: "badge" }, String(state.unread[id])) : null));
  const rooms = state.channels.filter((channel) => !channel.is_im);
  fill($("channels"), rooms.map((channel) => item(channel.id, [channel.is_ext_shared ? icon("shared") : "#", ` ${channel.name}`], `channel-${channel.name}`)));
  const dm = state.channels.find((channel) => channel.is_im) ?? { id: "app" };
  fill($("apps"), item(dm.id, state.app.name, "app-rackmedic"));
  $("apps").hidden = $("apps-head").hidden = !state.team.installed;
  const people = Object.values(state.users).filter((user) => !user.is_bot && !user.deleted);
  const option = (user) => h("option", { value: user.id, selected: user.id === state.me }, `${user.real_name.split(" ")[0]} (${user.role})`);
  fill($("user-switch"), Object.entries(state.teams).map(([id, name]) => h("optgroup", { label: name }, people.filter((user) => user.team_id === id).map(option))));
}

function drawHead() {
  const channel = here();
  if (!channel) return;
  $("title").textContent = channel.is_im ? state.app.name : `# ${channel.name}`;
  const outside = (channel.members ?? []).filter((id) => state.users[id]?.team_id !== state.team.id);
  fill($("topic"), channel.is_ext_shared && h("span", { class: "app outside" }, "SHARED"), channel.is_im ? "Direct message with the app" : `${channel.topic?.value ?? ""} · ${(channel.members ?? []).length} members${outside.length ? `, ${outside.length} external` : ""}`);
  $("tabs").hidden = !channel.is_im;
  const tab = (name, text) => h("button", { role: "tab", class: "quiet", "aria-selected": String(state.tab === name), testid: `tab-${name}`, onclick: () => openTab(name) }, text);
  fill($("tabs"), tab("home", "Home"), tab("messages", state.app.view === "assistant" ? "Chat" : "Messages"));
  const home = channel.is_im && state.tab === "home";
  $("home").hidden = !home;
  $("messages").hidden = $("compose").hidden = home;
  main.placeholder(channel.is_im ? `Message ${state.app.name}` : `Message #${channel.name}`);
}

function drawHome() {
  const view = state.home;
  const act = view && { me: state.me, values: (state.values[view.id] ??= {}), fire: (item, _block, value) => attempt("/control/click", { user: state.me, view_id: view.id, action_id: item.action_id, value: value ?? null }) };
  fill($("home"), view ? blocks(view.blocks, act) : h("p", { class: "faint" }, "The app has not published its home yet."));
}

function draw() {
  drawSide();
  drawHead();
  drawMessages();
  drawHome();
}

async function openChannel(id, thread = "") {
  if (id === "app") id = (await ask("/control/dm", { user: state.me })).channel.id;
  const before = { ...state.messages[id] };
  const data = await attempt(`/control/messages?channel=${encodeURIComponent(id)}&user=${state.me}`);
  if (!data) return;
  if (!state.channels.some((channel) => channel.id === id)) state.channels = (await ask(`/control/channels?user=${state.me}`)).channels;
  state.drafts[state.channel] = main.box.value;
  const linked = data.messages.find((message) => message.ts === thread);
  Object.assign(state, { channel: id, thread: linked?.thread_ts ?? linked?.ts ?? "" });
  state.tab = here()?.is_im && !linked ? "home" : "messages";
  // What arrived while the answer was on its way is newer than the answer.
  const meanwhile = Object.entries(all(id)).filter(([ts, message]) => before[ts] !== message);
  state.messages[id] = Object.fromEntries([...data.messages.map((message) => [message.ts, message]), ...meanwhile]);
  delete state.unread[id];
  draw();
  $("messages").scrollTop = $("messages").scrollHeight;
  if (state.thread) openThread(state.thread);
  else remember();
  main.write(state.drafts[id] ?? "");
  if (state.tab === "home") openTab("home");
}

function openTab(name) {
  state.tab = name;
  if (name === "home") attempt("/control/home", { user: state.me });
  else if (here()?.is_im) openPane();
  draw();
}

// An assistant's conversation begins with a thread of its own; an agent's is the tab.
async function openPane() {
  const opened = await attempt("/control/pane", { user: state.me });
  if (opened?.thread_ts) openThread(opened.thread_ts, true);
}

function openThread(ts, write = false) {
  state.thread = ts;
  const root = all()[ts];
  $("thread-of").textContent = root ? `${state.users[root.user]?.real_name ?? ""} in ${here()?.is_im ? "the conversation with the app" : `#${here()?.name}`}` : "";
  drawMessages();
  $("replies").scrollTop = $("replies").scrollHeight;
  remember();
  if (write) reply.box.focus();
}

function closeThread() {
  state.thread = "";
  remember();
  drawMessages();
  main.box.focus();
}

function arrived(channel, message) {
  (state.messages[channel] ??= {})[message.ts] = message;
  if (message.thread_ts && message.user !== BOT().id) delete state.prompts[`${channel}/${message.thread_ts}`];
  if (message.thread_ts && message.user === BOT().id) delete state.statuses[`${channel}/${message.thread_ts}`];
  if (channel !== state.channel && message.user !== state.me) state.unread[channel] = (state.unread[channel] ?? 0) + 1;
  // Whoever asked wants to see the answer: their thread opens by itself.
  const root = isReply(message) && all(channel)[message.thread_ts];
  if (root && channel === state.channel && !state.thread && message.user === BOT().id && root.user === state.me) openThread(root.ts);
}

const ON = {
  message: (change) => arrived(change.channel, change.data),
  message_changed: (change) => ((state.messages[change.channel] ??= {})[change.data.message.ts] = change.data.message),
  message_deleted: (change) => delete all(change.channel)[change.data.ts],
  ephemeral: (change) => arrived(change.channel, change.data),
  ephemeral_gone: (change) => delete all(change.channel)[change.data.ts],
  reaction: (change) => ((state.messages[change.channel] ??= {})[change.data.ts] = change.data.message),
  status: (change) => (state.statuses[`${change.channel}/${change.data.thread_ts}`] = change.data.status),
  prompts: (change) => (state.prompts[`${change.channel}/${change.data.thread_ts}`] = change.data),
  view: (change) => showModal(change.data.view, state.me),
  home: (change) => (state.home = change.data.view),
  trouble: (change) => toast(change.data.text),
  connections: (change) => linked(change.data.connections),
};
const RELOAD = new Set(["channel", "shared", "unshared", "joined", "user"]);

let drawing = 0;
let changedAt = 0;
async function changed(change) {
  changedAt = Date.now();
  ON[change.kind]?.(change);
  if (RELOAD.has(change.kind)) Object.assign(state, { channels: (await ask(`/control/channels?user=${state.me}`)).channels });
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(draw);
}

function linked(connections) {
  $("link-state").className = `link-state ${connections ? "up" : "down"}`;
  $("link-state").textContent = connections ? `${state.app.name} is connected` : `${state.app.name} is not connected`;
}

let source = null;
async function become(user) {
  source?.close();
  Object.assign(state, { messages: {}, thread: "" }); // what another saw is not to be clicked on meanwhile
  if (state.channel) drawMessages();
  const boot = await ask(`/control/boot${user ? `?user=${encodeURIComponent(user)}` : ""}`);
  Object.assign(state, { me: boot.me, team: boot.team, teams: boot.teams, groups: boot.groups, channels: boot.channels, app: boot.app, messages: {}, unread: {}, prompts: {}, thread: "", home: null, values: {} });
  state.users = Object.fromEntries(boot.users.map((one) => [one.id, one]));
  state.home = (await ask(`/control/home?user=${state.me}`)).view;
  $("team").textContent = boot.team.name;
  document.body.classList.toggle("outside", !boot.team.installed);
  linked(boot.connections);
  source = new EventSource(`/control/stream?user=${state.me}&since=${boot.seq}`);
  source.onmessage = (event) => changed(JSON.parse(event.data));
  source.onerror = () => { $("link-state").className = "link-state down"; $("link-state").textContent = "The sandbox does not answer"; };
  source.onopen = async () => linked((await ask("/control/stats")).connections);
  showModal(boot.view, state.me);
  const wanted = placeOf(new URL(location.href));
  const there = state.channels.find((one) => one.id === wanted.channel);
  if (wanted.message && !there) toast(`${state.users[state.me].real_name} is not in that channel. Choose at the top right who you are.`);
  await openChannel((there ?? state.channels[0]).id, there && wanted.thread);
  if (there && wanted.message) pointAt(wanted.message);
  return boot;
}

// A message that a link led to.
function pointAt(ts) {
  const node = [$("replies"), $("messages")].map((list) => list.querySelector(`[data-ts="${ts}"]`)).find(Boolean);
  node?.classList.add("linked");
  node?.scrollIntoView({ block: "center" });
}

async function openPlace({ channel, thread, message }) {
  if (!state.channels.some((one) => one.id === channel)) return toast("You are not in the channel that this leads to.");
  await openChannel(channel, thread);
  pointAt(message);
}

function remember() {
  const thread = state.thread ? `&thread=${state.thread}` : "";
  history.replaceState(null, "", `/?as=${state.users[state.me]?.name ?? ""}&channel=${state.channel}${thread}`);
}

const complete = (typed, box) => {
  if (typed[0] === "/") return box.value.startsWith("/") ? (state.app.commands ?? []).filter((one) => one.command.startsWith(typed)).map((one) => ({ insert: one.command, label: one.command, note: one.description ?? "", eager: true })) : [];
  if (typed[0] !== "@") return state.team.installed ? hostOffers(nodeNames())(typed) : [];
  const known = [...Object.values(state.users).map((user) => [user.name, user.is_bot ? "app" : user.real_name]), ...state.groups.map((group) => [group.handle, group.name])];
  return known.filter(([name]) => name.startsWith(typed.slice(1).toLowerCase())).sort(([a], [b]) => (b === "rackmedic") - (a === "rackmedic")).map(([name, note]) => ({ insert: `@${name}`, label: `@${name}`, note, eager: true }));
};
const isCommand = (word) => (state.app.commands ?? []).some((one) => one.command === word);
const end = (list) => () => requestAnimationFrame(() => ($(list).scrollTop = $(list).scrollHeight));
const HOW_TO_CALL = "RackMedic reads a message that mentions it: begin with @rackmedic. In a thread that it is in, no mention is needed.";
const sent = (list) => (done, text) => {
  end(list)();
  if (!done) return;
  advanceTour();
  const called = text === null || /@rackmedic\b/i.test(text) || list === "replies" || here()?.is_im;
  if (!called && state.team.installed) toast(HOW_TO_CALL, "hint");
};
const main = composer($("compose"), "composer", { place: () => ({ user: state.me, channel: state.channel }), complete, isCommand, send: sent("messages") });
const reply = composer($("reply"), "thread-composer", { place: () => ({ user: state.me, channel: state.channel, thread_ts: state.thread }), complete, isCommand, send: sent("replies") });
reply.placeholder("Reply…");

$("user-switch").addEventListener("change", (event) => become(event.target.value));
$("thread-close").addEventListener("click", closeThread);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && inspecting() && !document.querySelector("dialog[open]")) closeInspector();
  else if (event.key === "Escape" && state.thread && !document.querySelector("dialog[open]") && document.querySelector(".suggest:not([hidden])") === null) closeThread();
});

const themed = (name) => (document.documentElement.dataset.theme = name);
themed(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").addEventListener("click", () => {
  themed(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

// What somebody asked: in the thread that is open, else last in this channel.
function report() {
  const asked = ordered(Object.values(all())).filter((message) => !isReply(message) && message.user !== BOT().id && !message.is_ephemeral);
  const message = asked.find((one) => one.ts === state.thread) ?? asked.at(-1);
  return { message, author: state.users[message?.user]?.name ?? "", text: (message?.text ?? "").replaceAll(`<@${BOT().id}>`, "").trim() };
}

// Threads that the app works on, or watches still: it put its sign there, and nobody has closed them in words. Their last word first.
const CLOSE = "close";
const spoken = (root) => ordered(Object.values(all()).filter((message) => message.thread_ts === root.ts && isReply(message) && !message.is_ephemeral)).reverse();
const signed = () => Object.values(all()).filter((message) => !isReply(message) && (message.reactions ?? []).some((one) => one.users.includes(BOT().id)));
const openRoots = () => signed().filter((root) => spoken(root).find((message) => message.user !== BOT().id)?.text !== CLOSE);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Until each of these has an answer and nothing more is said or done for a moment; at most for as long as people wait.
async function answered(roots, moment = 1500, most = 10000) {
  const began = Date.now();
  const waits = () => Date.now() - Math.max(changedAt, began) < moment || roots.some((root) => spoken(root)[0]?.user !== BOT().id);
  while (waits() && Date.now() - began < most) await pause(100);
}

const acts = {
  refresh,
  // What is open in this channel is closed in words, as a person does it: a report of the same nodes or job would join it.
  closeOpen: async () => {
    const open = openRoots();
    for (const root of open) await attempt("/control/say", { user: state.me, channel: state.channel, thread_ts: root.ts, text: CLOSE });
    if (open.length) await answered(open);
  },
  inspect: (name) => inspect(name, true),
  saveCase: () => caseDialog(report),
  open: async (name, as = "") => {
    if (as ? state.users[state.me]?.name !== as : !state.team.installed) await become(as || "olga");
    const channel = state.channels.find((one) => one.name === name);
    if (channel) await openChannel(channel.id);
  },
  write: async (name, text) => {
    if (here()?.name !== name || state.thread) await acts.open(name);
    main.write(text);
  },
  latestThread: async () => {
    const root = ordered(Object.values(all())).filter((message) => !isReply(message) && message.user !== BOT().id).at(-1);
    if (root) openThread(root.ts);
    else toast("There is no thread yet: send the report first.");
  },
  reply: (text) => {
    if (!state.thread) acts.latestThread();
    if (state.thread) reply.write(text);
  },
  become,
};
followsLinks(openPlace);
for (const [id, name] of [["thread-close", "cross"], ["theme", "half"]]) $(id).append(icon(name));
$("case-open").addEventListener("click", acts.saveCase);

const boot = await become(placeOf(new URL(location.href)).as);
if (boot.cluster) {
  await watchCluster();
  told = await readStories(acts, nodeNames());
  drawMessages();
}
document.body.dataset.ready = "yes";
