"""What people hand in: attachments and fenced blocks, read by the same parsers as a host's answers but believed less. Pure.

Such facts carry no host: anyone could have written them. They may prove what accuses no machine, and suggest everything else.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from graph.state import Attachment, Item
from kb.redact import redact
from tools.checks.row import Check
from tools.evidence import EvidenceStore
from tools.fact import Fact

FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.DOTALL)
MOST_READ = 8 << 20
"""Characters of one attachment that are read for facts; all of it is stored."""


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


def read_pasted(text: str, checks: Mapping[str, Check]) -> list[Fact]:
    """Facts of every check whose format the text is of; what no parser knows yields nothing and hides nothing."""
    found: dict[tuple[str, str | None, str, str], Fact] = {}
    body = text[:MOST_READ]
    for check in checks.values():
        for shape in check.formats:
            if shape.sniff(body):
                for fact in check.read(body):
                    if fact.key and not fact.status.blind:
                        found.setdefault((fact.key, fact.device, repr(fact.value), fact.line), replace(fact, host=""))
                break
    return list(found.values())
