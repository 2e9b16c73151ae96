// Where a page begins, and links to messages: /?as=olga&channel=C…&thread=… of our own, and /archives/C…/p… as Slack writes permalinks.

import { toast } from "/page/dom.js";

const stamp = (digits) => `${digits.slice(0, -6)}.${digits.slice(-6)}`;

// {as, channel, thread, message} of an address; all may be missing.
export function placeOf(url) {
  const asked = url.searchParams;
  const link = /^\/archives\/([A-Z0-9]+)\/p(\d{7,})$/.exec(url.pathname);
  const as = asked.get("as") ?? "";
  if (!link) return { as, channel: asked.get("channel") ?? "", thread: asked.get("thread") ?? "", message: "" };
  const message = stamp(link[2]);
  return { as, channel: link[1], thread: asked.get("thread_ts") ?? message, message };
}

export const linkTo = (channel, message) => {
  const thread = message.thread_ts && message.thread_ts !== message.ts ? `?thread_ts=${message.thread_ts}&cid=${channel}` : "";
  return `${location.origin}/archives/${channel}/p${message.ts.replace(".", "")}${thread}`;
};

export async function copyLink(channel, message) {
  try {
    await navigator.clipboard.writeText(linkTo(channel, message));
    toast("Link copied.", "good");
  } catch {
    toast(linkTo(channel, message), "good");
  }
}

let open = () => {};

// A link to one of our own messages opens here, as the person who reads it. Whether it was one.
export function follow(href) {
  const url = new URL(href);
  if (url.origin !== location.origin || !url.pathname.startsWith("/archives/")) return false;
  open(placeOf(url));
  return true;
}

export function followsLinks(opens) {
  open = opens;
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    if (follow(link.href)) event.preventDefault();
  });
}
