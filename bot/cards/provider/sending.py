"""At a customer's site: what is offered to be sent to the provider, and how far they are with it. One message, edited as it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.customers import living
from bot.cards.customers.phrases import ENGLISH, phrase
from bot.cards.customers.view import TheirCause
from bot.cards.text import Line, bold, code
from kb.scan import lines_in

SHOW, SEND, BACK = "provider.show", "provider.send", "provider.back"
BUTTONS = {SHOW: "show", SEND: "send", BACK: "back"}
PROVED = ("proved", "closed")
YOURS = "They looked, and the cause is one that you can mend yourselves"
MOST_QUOTED = 2000
"""Characters of their people's words as they are shown."""


@dataclass(frozen=True, slots=True)
class ShownSending:
    """All that the message is made of. `stage` as the outbox has it, `by` a name, `digest` of what was shown and waits for a click."""

    incident: str
    stage: str
    digest: str = ""
    by: str = ""
    ticket: str = ""
    state: str = ""
    trouble: str = ""
    refused: str = ""
    tries: int = 0
    found: tuple[TheirCause, ...] = ()
    """Causes that the provider found."""

    @property
    def yours(self) -> bool:
        """Whether all that the provider found is for this site to mend."""
        return bool(self.found) and not any(row.ours for row in self.found) and self.state not in PROVED


def render(view: ShownSending) -> Card:
    """The message as it is now."""
    head, *lines = _says(view)
    found = [block for row in view.found for block in living.cause_blocks(row, ENGLISH)] if view.stage == "sent" else []
    return blocks.card(head, [blocks.say(bold(head)), *([blocks.section(*lines)] if lines else []), *found, *_buttons(view)])


def provider_says(ticket: str, words: str) -> Card:
    """What one of the provider's people told this site. It is theirs, word for word, and none of it is markup."""
    head = "Your provider writes"
    return blocks.card(
        f"{head}: {words[:200]}",
        [
            blocks.say("💬 ", bold(f"{head}:")),
            blocks.quote(lines_in(words), limit=MOST_QUOTED),
            blocks.context(("Their people's words about their ticket ", code(ticket), ", passed on as they came. I act on none of it.")),
        ],
    )


def moved(view: ShownSending) -> Card:
    """A short message of its own, for an edit tells nobody."""
    if view.yours:
        words = f"🛠 Your provider, ticket {view.ticket}: “{YOURS}”"
        return blocks.card(words, [blocks.say(words)])
    words = f"{'✅' if view.state in PROVED else '📨'} Your provider, ticket {view.ticket}: “{state_in_words(view.state)}”"
    return blocks.card(words, [blocks.say(words)])


def refusal(words: str) -> Card:
    """Why nothing is shown."""
    return blocks.card(words, [blocks.say(words)])


def attached(*, facts_kept: bool = True) -> str:
    """What stands above the file that shows what would leave."""
    gone = (
        "" if facts_kept else " I could not look at the facts: the outputs of this incident are not kept any more, or not on this machine."
    )
    return f"{_WHOLE}{gone}"


_WHOLE = "This, and nothing else, would leave for your provider. Nothing was sent yet. Names that begin with ~ are signatures; the salt stays here."


def state_in_words(state: str) -> str:
    """As customers read it on their card."""
    return phrase(f"state_{state}")


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of its buttons; `item` is the digest of what was shown."""
    return read_press(payload, BUTTONS)


def _says(view: ShownSending) -> list[Any]:
    match view.stage:
        case "shown":
            return ["Send this to your provider?", _line("The file above is the whole of it. Nothing leaves before the click.")]
        case "waiting":
            held = [_line(f"Tried {view.tries} times: {view.trouble}. It goes on by itself.")] if view.trouble else []
            return ["On its way to your provider", _line(f"Asked for by {view.by or 'somebody'}."), *held]
        case "refused":
            return ["Your provider did not take it", _line(view.refused)]
        case "sent":
            head = YOURS if view.yours else f"Your provider has it: “{state_in_words(view.state or 'received')}”"
            return [head, _ticket(view)]
        case _:
            return [
                "This may be your provider's to mend",
                _line("I can send them what was tried and seen. You see every word of it first."),
            ]


def _line(words: str) -> Line:
    return (words,)


def _ticket(view: ShownSending) -> Line:
    by = f", sent by {view.by}" if view.by else ""
    return ("Their ticket ", code(view.ticket), f"{by}. I ask them how far they are; nothing of theirs reaches in here.")


def _buttons(view: ShownSending) -> list[Block]:
    if view.stage == "shown":
        value = carry(view.incident, view.digest)
        return [blocks.actions(blocks.button("Send this", SEND, value, style="primary"), blocks.button("Not now", BACK, value))]
    if view.stage == "waiting":
        return []
    words = "Send what is new…" if view.stage == "sent" else "Send to provider…"
    return [blocks.actions(blocks.button(words, SHOW, carry(view.incident)))]
