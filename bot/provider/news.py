"""What a provider says of a ticket beside its state: words of their people, and causes that they found. Values on the wire; read by cutting and
redacting, for at the customer's site all of it is a stranger's.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from bot.cards.customers.view import TheirCause
from kb.customers.words import CauseWords
from kb.redact import cleaned_start
from kb.taxonomy.customer_fix import CustomerFix

MOST_WORDS, MOST_CAUSES = 5, 3
"""Of one ticket in one answer: words of people (the rest comes with the next), and causes."""
MOST_TOLD, MOST_BLOCK = 1500, 1500
"""Characters of what people say, and of a block to paste."""
_LINE, _NAME = 600, 253


def _kept(most: int) -> BeforeValidator:
    def kept(value: Any) -> Any:
        return cleaned_start(value, most) if isinstance(value, str) else value

    return BeforeValidator(kept)


Words = Annotated[str, _kept(MOST_TOLD)]
Block = Annotated[str, _kept(MOST_BLOCK)]
Sentence = Annotated[str, _kept(_LINE)]
Name = Annotated[str, _kept(_NAME)]


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ProviderWords(_Told):
    """What one of their people told the customer. `n` counts a ticket's from one, so that each is heard once."""

    n: Annotated[int, Field(ge=1, le=1_000_000)]
    at: datetime
    text: Words


class ProviderCause(_Told):
    """A cause that they found, in customers' words. Where it is not `ours` (the provider's), the customer mends it: how stands in the rest."""

    title: Sentence
    words: Sentence
    ours: bool = True
    hosts: Annotated[tuple[Name, ...], Field(max_length=256)] = ()
    shows: Annotated[tuple[Sentence, ...], Field(max_length=4)] = ()
    """Lines of the customer's own job."""
    change: Sentence = ""
    block: Block = ""
    works: Sentence = ""


Told = Annotated[tuple[ProviderWords, ...], Field(max_length=MOST_WORDS)]
Found = Annotated[tuple[ProviderCause, ...], Field(max_length=MOST_CAUSES)]
FOUND: TypeAdapter[tuple[ProviderCause, ...]] = TypeAdapter(tuple[ProviderCause, ...])


def heard_of(notes: Mapping[str, str]) -> int:
    """How many words of the provider's people stand in the thread, by what the outbox keeps of its row."""
    return int(notes.get("heard", 0))


def found_of(notes: Mapping[str, str]) -> tuple[ProviderCause, ...]:
    """Causes that the provider found, by the same."""
    return FOUND.validate_json(notes.get("found", "[]"))


def causes_of(rows: Iterable[TheirCause]) -> tuple[ProviderCause, ...]:
    """As the customers' card has them."""
    return tuple(_cause(row) for row in rows)[:MOST_CAUSES]


def shown_of(rows: Iterable[ProviderCause]) -> tuple[TheirCause, ...]:
    """As a card shows them."""
    return tuple(_shown(row) for row in rows)


def _shown(row: ProviderCause) -> TheirCause:
    fix = None if row.ours else CustomerFix(row.change, (row.block,), row.works)
    return TheirCause(CauseWords(row.title, row.words, fix), row.ours, row.hosts, row.shows, row.block)


def _cause(row: TheirCause) -> ProviderCause:
    fix = row.said.fix if not row.ours else None
    return ProviderCause(
        title=row.said.title,
        words=row.said.words,
        ours=row.ours,
        hosts=row.hosts[:256],
        shows=row.shows[:4],
        change=fix.change if fix else "",
        block=row.block,
        works=fix.works if fix else "",
    )
