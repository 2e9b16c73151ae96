"""What Slack shows around a conversation with the app itself: suggested prompts, and the status line of a thread. Pure state."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from deploy.sandbox.slack.workspace.journal import WorkspaceJournal
from deploy.sandbox.slack.workspace.refusal import JSON

PaneView = Literal["", "agent", "assistant"]
"""What the manifest's features ask for. An `agent`'s conversation is its Messages tab; an `assistant`'s is threads, each begun by opening it.
New apps can only be agents (docs.slack.dev/ai/migrating-to-agent-messaging)."""
STATUS_SECONDS = 120.0
"""Without a message of the app the status goes (docs.slack.dev/reference/methods/assistant.threads.setStatus)."""


@dataclass
class Panes:
    clock: Callable[[], float]
    journal: WorkspaceJournal
    prompts: dict[tuple[str, str], JSON] = field(default_factory=dict)
    """(channel, thread, or nothing for the conversation as a whole) → the title and the prompts."""
    _statuses: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def status(self, channel: str, thread_ts: str) -> str:
        """What the app is said to be doing there."""
        words, since = self._statuses.get((channel, thread_ts), ("", 0.0))
        return words if self.clock() - since < STATUS_SECONDS else ""

    def show(self, channel: str, thread_ts: str, words: str, loading: list[str]) -> None:
        self._statuses[channel, thread_ts] = (words, self.clock())
        self.journal.add("status", {"thread_ts": thread_ts, "status": words, "loading_messages": loading}, channel)

    def answered(self, channel: str, thread_ts: str) -> None:
        """The app posted in the thread: its status goes (docs.slack.dev/ai/developing-ai-apps, loading states)."""
        if self._statuses.pop((channel, thread_ts), ("",))[0]:
            self.journal.add("status", {"thread_ts": thread_ts, "status": "", "loading_messages": []}, channel)

    def offer(self, channel: str, thread_ts: str, title: str, prompts: list[JSON]) -> None:
        self.prompts[channel, thread_ts] = {"title": title, "prompts": prompts}
        self.journal.add("prompts", {"thread_ts": thread_ts, "title": title, "prompts": prompts}, channel)
