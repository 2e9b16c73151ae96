// Stories to begin with: each breaks what it is about and leads through it in a few steps. The tour can be left at any time, by Escape too.

import { $, ask, attempt, fill, h, icon } from "/page/dom.js";

const ASKS = { why: "why", summary: "summary for my manager" };
const SENDS = new Set(["say", "why", "summary", "about"]);
let acts = {};
let tour = null;

const spot = (name) => (name ? (document.querySelector(`[data-testid="${CSS.escape(name)}"]`) ?? document.getElementById(name) ?? document.querySelector(`.${CSS.escape(name)}`)) : null);
const faultsOf = (story) => story.breaks.map((one) => ({ ...one }));

async function set(story) {
  await acts.closeOpen();
  await attempt("/cluster/heal", {});
  for (const one of faultsOf(story)) await attempt("/cluster/break", one);
  if (story.modifiers.length) await attempt("/cluster/modify", { modifiers: story.modifiers });
  await acts.refresh();
}

const DO = {
  say: (story) => acts.write(story.channel, story.say),
  thread: () => acts.latestThread(),
  why: () => acts.reply(ASKS.why),
  summary: () => acts.reply(ASKS.summary),
  about: (_story, step) => acts.reply(step.ask),
  priya: () => acts.become("priya"),
  inspect: (_story, step) => acts.inspect(step.node),
  case: () => acts.saveCase(),
};

export function leaveTour() {
  if (!tour) return;
  tour = null;
  mark(null);
  $("tour").hidden = true;
}

// Go on to the next step once its message was sent.
export function advanceTour() {
  const step = tour?.story.steps[tour.step];
  if (step && SENDS.has(step.do) && tour.step + 1 < tour.story.steps.length) show(tour.step + 1);
}

function mark(node) {
  for (const old of document.querySelectorAll(".toured")) old.classList.remove("toured");
  node?.classList.add("toured");
  node?.scrollIntoView?.({ block: "nearest" });
}

function show(n) {
  const { story } = tour;
  tour.step = n;
  const step = story.steps[n];
  const last = n === story.steps.length - 1;
  const run = DO[step.do];
  const doing = run && h("button", { type: "button", class: "plain", testid: "tour-do", onclick: async () => { await run(story, step); mark(spot(step.at)); } }, step.label);
  const next = h("button", { type: "button", class: "primary", testid: "tour-next", onclick: () => (last ? leaveTour() : show(n + 1)) }, last ? "Done" : "Next");
  fill(
    $("tour"),
    h("header", {}, h("strong", {}, story.title), h("span", { class: "faint" }, `step ${n + 1} of ${story.steps.length}`), h("span", { class: "grow" }), h("button", { type: "button", class: "quiet icon", testid: "tour-leave", "aria-label": "Leave the tour", title: "Leave the tour (Escape)", onclick: leaveTour }, icon("cross"))),
    h("p", { role: "status" }, step.text),
    h("footer", {}, n > 0 && h("button", { type: "button", class: "quiet", testid: "tour-back", onclick: () => show(n - 1) }, "Back"), h("span", { class: "grow" }), doing, next),
  );
  $("tour").hidden = false;
  mark(spot(step.at));
  (doing ?? next).focus();
}

// Olga begins every story, as its steps say; the last one may have ended as Priya.
async function begin(story) {
  $("stories").close();
  const mine = (tour = { story, step: 0 });
  mark(null);
  fill($("tour"), h("header", {}, h("strong", {}, story.title)), h("p", { role: "status" }, "Setting the scene…"));
  $("tour").hidden = false;
  await acts.open(story.channel, "olga");
  await set(story);
  if (tour === mine) show(0);
}

export function storyList(stories, press) {
  return h("ul", { class: "stories" }, stories.map((story) => h("li", {}, h("button", { type: "button", class: "plain", testid: `story-${story.id}`, onclick: () => press(story) }, h("strong", {}, story.title), h("span", {}, story.about)))));
}

// The stories that can be played on this cluster: whose nodes are there. `does` are the page's own acts.
export async function readStories(does, names) {
  acts = does;
  const { stories } = await ask("/page/stories.json");
  const there = (story) => [...story.breaks.map((one) => one.node), ...story.modifiers.map((text) => text.split("@")[1])].every((name) => !name || name === "*" || names.includes(name));
  const playable = stories.filter(there);
  $("stories-open").hidden = playable.length === 0;
  $("stories-open").addEventListener("click", () => {
    fill($("stories"), h("header", {}, h("h2", { id: "stories-title" }, "Stories"), h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: () => $("stories").close() }, icon("cross"))), h("div", { class: "body" }, h("p", { class: "faint" }, "Each heals the cluster, closes what is open in the channel, breaks what it is about, and leads you through it in five steps. You can leave at any time."), storyList(playable, begin)));
    $("stories").showModal();
  });
  $("tour").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") leaveTour();
    else if (step && tour && tour.story.steps[tour.step + step]) show(tour.step + step);
    else return;
    event.stopPropagation();
    event.preventDefault();
  });
  return { stories: playable, begin };
}
