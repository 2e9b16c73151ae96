"""What is offered and said around the answers of a conversation with the app: suggested questions, the line while we read, a thread's title. Pure.

Titles and lines come from these tables alone: nothing that anybody wrote gets into them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bot.incidents.cards.direct_messages import DirectRequest


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """A question that is pressed instead of written: Slack sends `says` as what they wrote, and `wish` is what it asks for."""

    says: str
    wish: DirectRequest


SUGGESTED_PROMPTS: Final = (
    SuggestedPrompt("Which incidents are open?", "status"),
    SuggestedPrompt("What waits for my approval?", "approvals"),
    SuggestedPrompt("Help: what can I ask here?", "help"),
)
"""At most four, which is what Slack shows."""
PROMPTS_TITLE: Final = "Ask me"
READING_STATUS_TEXTS: Final[Mapping[DirectRequest, str]] = {
    "status": "is reading what is open…",
    "approvals": "is looking at what waits for you…",
}
"""Said after our name while something is read; what reads nothing has no line."""
THREAD_TITLES: Final[Mapping[DirectRequest, str]] = {
    "status": "Open incidents",
    "approvals": "Waiting for your decision",
    "help": "What can be asked",
}
"""What a thread is called after such a question."""


def build_prompt_payload(prompts: Sequence[SuggestedPrompt]) -> list[dict[str, str]]:
    """As Slack takes them: what is read on the button is what is sent."""
    return [{"title": prompt.says, "message": prompt.says} for prompt in prompts]
