"""Suggested prompts and thread statuses, which Slack shows with a conversation with the app."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from deploy.sandbox.slack.workspace.journal import WorkspaceJournal
from deploy.sandbox.slack.workspace.refusal import JSON

# From the manifest's features. An `agent` uses its Messages tab; an `assistant` uses threads, each begun by opening it.
# New apps can only be agents (docs.slack.dev/ai/migrating-to-agent-messaging).
PaneView = Literal["", "agent", "assistant"]
# lifetime of a status without a message of the app (docs.slack.dev/reference/methods/assistant.threads.setStatus)
STATUS_SECONDS = 120.0


@dataclass
class Panes:
    """Prompts and statuses of all conversations with the app."""

    clock: Callable[[], float]
    journal: WorkspaceJournal
    # (channel, thread or "" for the whole conversation): title and prompts
    prompts: dict[tuple[str, str], JSON] = field(default_factory=dict)
    _statuses: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def get_status(self, channel: str, thread_ts: str) -> str:
        text, set_at = self._statuses.get((channel, thread_ts), ("", 0.0))
        return text if self.clock() - set_at < STATUS_SECONDS else ""

    def set_status(self, channel: str, thread_ts: str, text: str, loading: list[str]) -> None:
        self._statuses[channel, thread_ts] = (text, self.clock())
        self.journal.add("status", {"thread_ts": thread_ts, "status": text, "loading_messages": loading}, channel)

    def clear_status(self, channel: str, thread_ts: str) -> None:
        """Clear the status when the app posts in the thread (docs.slack.dev/ai/developing-ai-apps, loading states)."""
        if self._statuses.pop((channel, thread_ts), ("",))[0]:
            self.journal.add("status", {"thread_ts": thread_ts, "status": "", "loading_messages": []}, channel)

    def set_prompts(self, channel: str, thread_ts: str, title: str, prompts: list[JSON]) -> None:
        self.prompts[channel, thread_ts] = {"title": title, "prompts": prompts}
        self.journal.add("prompts", {"thread_ts": thread_ts, "title": title, "prompts": prompts}, channel)
