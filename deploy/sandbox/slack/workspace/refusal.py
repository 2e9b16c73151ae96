"""Slack's error answers: a code and messages that point at the problem."""

from typing import Any

JSON = dict[str, Any]  # Slack's wire format. It has no public schema, so it is checked on entry and not typed further.


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
