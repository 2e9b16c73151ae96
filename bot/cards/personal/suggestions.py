"""What is offered and said around the answers of a conversation with the app: suggested questions, the line while we read, a thread's title. Pure.

Titles and lines come from these tables alone: nothing that anybody wrote gets into them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bot.cards.personal.direct import Wish


@dataclass(frozen=True, slots=True)
class SuggestedPrompt:
    """A question that is pressed instead of written: Slack sends `says` as what they wrote, and `wish` is what it asks for."""

    says: str
    wish: Wish


PROMPTS: Final = (
    SuggestedPrompt("Which incidents are open?", "status"),
    SuggestedPrompt("What waits for my approval?", "approvals"),
    SuggestedPrompt("Help: what can I ask here?", "help"),
)
"""At most four, which is what Slack shows."""
SUGGESTED: Final = "Ask me"
READING: Final[Mapping[Wish, str]] = {"status": "is reading what is open…", "approvals": "is looking at what waits for you…"}
"""Said after our name while something is read; what reads nothing has no line."""
TITLES: Final[Mapping[Wish, str]] = {"status": "Open incidents", "approvals": "Waiting for your decision", "help": "What can be asked"}
"""What a thread is called after such a question."""


def wire(prompts: Sequence[SuggestedPrompt]) -> list[dict[str, str]]:
    """As Slack takes them: what is read on the button is what is sent."""
    return [{"title": prompt.says, "message": prompt.says} for prompt in prompts]
