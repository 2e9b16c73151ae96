"""A bug of ours, said honestly: what is known, what was not done, whom to tell what."""

from bot.cards import blocks
from bot.cards.blocks import Card
from bot.cards.text import bold, code


def render(reference: str, incident: str = "") -> Card:
    """`reference` finds the traceback in our log."""
    headline = "Internal error: I could not finish this"
    about = (" for incident ", code(incident)) if incident else ()
    return blocks.card(
        headline,
        [
            blocks.say(f"💥 {headline}", *about, "."),
            blocks.say("Nothing was changed on any host. What was noted down is kept; reply ", code("recheck"), " to try again."),
            blocks.context(("For whoever runs me: the log has it under ", bold(reference), ".")),
        ],
    )


def not_stored(will_retry: bool) -> Card:
    """The store is away: the person must not believe that it was noted."""
    words = "My store does not answer, so I could not note this down."
    rest = "Slack will send it again by itself." if will_retry else "Please try again in a minute."
    return blocks.card(f"{words} {rest}", [blocks.say(f"⏳ {words} {rest}")])
