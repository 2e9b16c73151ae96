"""How Slack says no: an error code, and sentences that point at what was wrong."""

from typing import Any

JSON = dict[str, Any]
"""What travels on Slack's wire. Nobody has the schema but Slack, so it is checked where it enters and not typed further."""


class SlackRefusal(Exception):
    """Slack would answer `ok: false` with this code."""

    def __init__(self, code: str, *messages: str, **extra: Any) -> None:
        super().__init__(code, *messages)
        self.code = code
        self.messages = messages
        self.extra = extra

    def answer(self) -> JSON:
        body: JSON = {"ok": False, "error": self.code, **self.extra}
        if self.messages:
            body["response_metadata"] = {"messages": list(self.messages)}
        return body
