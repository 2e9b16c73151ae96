"""At a customer's site: what is offered to be sent to the provider, and how far they are with it. One message, edited as it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.customers.phrases import phrase
from bot.cards.text import Line, bold, code

SHOW, SEND, BACK = "provider.show", "provider.send", "provider.back"
BUTTONS = {SHOW: "show", SEND: "send", BACK: "back"}
PROVED = ("proved", "closed")


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


def render(view: ShownSending) -> Card:
    """The message as it is now."""
    head, *lines = _says(view)
    return blocks.card(head, [blocks.say(bold(head)), *([blocks.section(*lines)] if lines else []), *_buttons(view)])


def moved(view: ShownSending) -> Card:
    """A short message of its own, for an edit tells nobody."""
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
            return [f"Your provider has it: “{state_in_words(view.state or 'received')}”", _ticket(view)]
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
