"""Suggested prompts, status lines and thread titles. Pure. No user text gets into them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bot.incidents.cards.direct_messages import DirectRequest


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """Slack sends `says` as the user's message; `wish` is the request."""

    says: str
    wish: DirectRequest


# Slack shows at most four
SUGGESTED_PROMPTS: Final = (
    SuggestedPrompt("Which incidents are open?", "status"),
    SuggestedPrompt("What waits for my approval?", "approvals"),
    SuggestedPrompt("Help: what can I ask here?", "help"),
)
PROMPTS_TITLE: Final = "Ask me"
# Shown after our name while stored data is read.
READING_STATUS_TEXTS: Final[Mapping[DirectRequest, str]] = {
    "status": "is reading what is open…",
    "approvals": "is looking at what waits for you…",
}
THREAD_TITLES: Final[Mapping[DirectRequest, str]] = {
    "status": "Open incidents",
    "approvals": "Waiting for your decision",
    "help": "What can be asked",
}


def build_prompt_payload(prompts: Sequence[SuggestedPrompt]) -> list[dict[str, str]]:
    return [{"title": prompt.says, "message": prompt.says} for prompt in prompts]
