"""What people hand in: attachments and fenced blocks, read by the same parsers as a host's answers but believed less. Pure.

Such facts carry no host: anyone could have written them. They may prove what accuses no machine, and suggest everything else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from graph.state import Attachment, Item
from kb.redact import redact
from kb.scan import LONGEST
from tools.checks.few import few, gone_of
from tools.checks.row import Check
from tools.evidence import EvidenceStore
from tools.fact import Fact

FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.DOTALL)
MOST_READ, BEGINNING = 4 << 20, 1 << 20
"""Characters of one log that are read for facts, and how many of them from its beginning: the rest is its end. All of it is stored, and all of
it goes into the log's templates."""
MOST_OUTPUT = 2 << 20
"""Characters of any other output that are read: no machine prints so much of itself."""
MONSTER = 1 << 20
"""A line longer than this is read as far as any reader looks into a line: what stands behind it must not be out of reach."""


LONGEST_TEXT = 4000


async def shelve(item: Item, evidence: EvidenceStore) -> Item:
    """The item as it may be stored: words redacted and bounded, everything pasted or attached in the evidence store by digest."""
    handed_in = [given.model_copy(update={"size": given.size or len(given.text.encode())}) for given in item.attachments]
    kept = [await _shelved(given, item.incident, evidence) for given in (*handed_in, *fenced(item.text))]
    return item.model_copy(update={"text": redact(without_fences(item.text)).strip()[:LONGEST_TEXT], "attachments": tuple(kept)})


async def _shelved(given: Attachment, incident: str, evidence: EvidenceStore) -> Attachment:
    name = redact(given.name)[:80]
    if given.unread:
        return Attachment(name=name, size=given.size, unread=given.unread)
    return Attachment(name=name, sha256=given.sha256 or await evidence.put(incident, given.text), size=given.size)


def fenced(text: str) -> tuple[Attachment, ...]:
    """Blocks between triple backticks are pasted logs, not words."""
    blocks = (block.strip() for block in FENCE.findall(text))
    return tuple(Attachment(name=f"pasted {n}", text=block) for n, block in enumerate((b for b in blocks if "\n" in b or len(b) > 40), 1))


def without_fences(text: str) -> str:
    """The words around pasted blocks."""
    return FENCE.sub(" ", text)


@dataclass(frozen=True, slots=True)
class Pasted:
    """The facts of a text, and how much of what it says was left out of them: a machine has no such number of anything."""

    facts: tuple[Fact, ...]
    left_out: int = 0


def read_pasted(text: str, checks: Mapping[str, Check]) -> Pasted:
    """Facts of every check whose format the text is of; what no parser knows yields nothing and hides nothing."""
    found: dict[tuple[str, str | None, str, str], Fact] = {}
    gone = 0
    log = within(text)
    for check in checks.values():
        body = log if check.partial else log[:MOST_OUTPUT]
        for shape in check.formats:
            if shape.sniff(body):
                facts = check.read(body)
                gone += gone_of(facts)
                for fact in facts:
                    if fact.key and not fact.status.blind:
                        found.setdefault((fact.key, fact.device, repr(fact.value), fact.line), replace(fact, host=""))
                break
    kept = few("", list(found.values()), gone)
    return Pasted(tuple(fact for fact in kept if fact.key), gone_of(kept))


def within(text: str) -> str:
    """What is read of a text: monstrous lines shortened, and of a long one its beginning and its end, in whole lines."""
    text = _shortened(text) if len(text) > MONSTER else text
    if len(text) <= MOST_READ:
        return text
    head = text[: text.rfind("\n", 0, BEGINNING) + 1] or text[:BEGINNING]
    start = text.find("\n", len(text) - (MOST_READ - BEGINNING)) + 1
    return head + (text[start:] if start else "")


def _shortened(text: str) -> str:
    parts: list[str] = []
    at = whole = 0
    while len(text) - at > MONSTER:
        last = text.rfind("\n", at, at + MONSTER)
        if last >= 0:
            at = last + 1
            continue
        end = text.find("\n", at + MONSTER)
        parts.append(text[whole : at + LONGEST])
        at = whole = end if end >= 0 else len(text)
    return "".join((*parts, text[whole:]))
