"""Short cards that say one thing: what will not be done, that it goes on, that the store is away, that we have a bug."""

from bot.cards import blocks
from bot.cards.blocks import Card
from bot.cards.text import bold, code


def refused(words: str) -> Card:
    """What will not be done, and what to do instead: `words` are a Refusal's."""
    return blocks.card(words, [blocks.say(f"🚫 {words}")])


def goes_on(words: str) -> Card:
    """One line for one person: it goes on, and how they will see that."""
    return blocks.card(words, [blocks.say(f"⏳ {words}")])


def not_stored(will_retry: bool) -> Card:
    """The store is away: the person must not believe that it was noted."""
    words = "My store does not answer, so I could not note this down."
    rest = "Slack will send it again by itself." if will_retry else "Please try again in a minute."
    return blocks.card(f"{words} {rest}", [blocks.say(f"⏳ {words} {rest}")])


def bug(reference: str, incident: str = "") -> Card:
    """A bug of ours, said honestly: what is known, what was not done. `reference` finds the traceback in our log."""
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
