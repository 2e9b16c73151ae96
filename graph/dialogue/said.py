"""One parsed message: an intent and what it names. A model proposes ids, and only existing ids are accepted."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from graph.dialogue.intents import INTENTS, Intent, Predicate
from graph.extraction.host_index import HostIndex
from graph.state import InboxItem, InboxItemKind, StoredModel

_EXACT: Final = (Intent.RECHECK, Intent.HOST_CHANGED, Intent.NARROW, Intent.WIDEN, Intent.RUN_GUIDE)


ALL, OTHERS = "*", "~"  # As a group: all hosts, or all but those mentioned.


class ParsedMessage(StoredModel):
    """`text` is what was written, as people see it, and is not stored with the rest. All names are of the tables: hosts of the
    inventory, labels of the taxonomy, ids of checks and remedies."""

    intent: Intent = Intent.NOT_UNDERSTOOD
    text: str = ""
    sure: bool = True  # Whether the rules are sure; a model may be asked about the rest.
    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()  # Names like hosts that are not visible hosts.
    left_out: tuple[str, ...] = ()  # Excepted hosts (“all but gpu-003”), for which nothing is requested.
    group: str = ""  # A group of the inventory, `ALL` or `OTHERS`.
    job: str = ""
    labels: tuple[str, ...] = ()  # Causes named by label, title or plain word (“ECC”, “cable”).
    cause: str = ""  # The cause of a correction in the writer's own words.
    category: str = ""  # A taxonomy category, if no single cause is named (“the network”).
    check: str = ""
    remedy: str = ""
    guide: str = ""  # A guide's name as written, which may not exist.
    device: str = ""  # `gpu3`, `mlx5_2`.
    person: str = ""  # Slack user id of a person named.
    at: datetime | None = None  # A time named: since when, or until when.
    audience: str = ""  # `manager` or `ticket`, for a summary.
    form: str = ""  # `file` or `picture`, if output is wanted as one.
    picture: str = ""  # `timeline`, `walk` or `bandwidth`, if one is to be drawn.
    detail: str = ""  # What of an action, or which number or name; see `graph.dialogue.details`.
    predicate: Predicate = ""  # The yes-or-no question; empty if a word is not understood.
    suggestions: tuple[Intent, ...] = ()  # The two nearest intents, if none was understood.

    @property
    def kind(self) -> InboxItemKind:
        return INTENTS[self.intent].item

    def build_item_data(self) -> dict[str, Any]:
        """Return plain JSON without defaults and text. A command's names are exact, so they are listed separately."""
        told: dict[str, Any] = {"said": self.model_dump(mode="json", exclude_defaults=True, exclude={"text"})}
        group = (self.group,) if self.group not in ("", ALL, OTHERS) and not self.hosts else ()
        if self.intent in _EXACT and (named := (*group, *self.hosts, *self.unknown_hosts)):
            told["hosts"] = ",".join(named)
        if self.intent is Intent.NARROW and self.job:
            told["job"] = self.job
        if self.intent is Intent.WIDEN:
            told["wider"] = True
        return told


@dataclass(frozen=True)
class Vocabulary:
    """What a text may name in one place. Build it once per place: its indexes are cached."""

    hosts: Collection[str] = ()
    domains: Collection[str] | None = None
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)  # Label → title.
    checks: Collection[str] = ()
    remedies: Mapping[str, str] = field(default_factory=dict)  # Remedy → title.

    @cached_property
    def host_index(self) -> HostIndex:
        return HostIndex(self.hosts, self.domains)


def get_parsed_message(item: InboxItem) -> ParsedMessage | None:
    """Return what was understood on arrival; None for items other than people's messages."""
    row = item.data.get("said")
    return ParsedMessage.model_validate({**row, "text": item.text}) if isinstance(row, Mapping) else None
