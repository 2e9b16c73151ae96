"""One message as it was understood: an intent of the table and what it names. The model proposes ids, and only ids that exist come in here."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from graph.dialogue.intents import INTENTS, Intent, Predicate
from graph.extraction.host_index import HostIndex
from graph.state import InboxItem, InboxItemKind, StoredModel

_EXACT: Final = (Intent.RECHECK, Intent.NARROW, Intent.WIDEN, Intent.RUN_GUIDE)


ALL, OTHERS = "*", "~"
"""In the place of a group: all hosts, or the others than those that were spoken of."""


class ParsedMessage(StoredModel):
    """`text` is what was written, as people see it, and is not stored with the rest. All names are of the tables: hosts of the
    inventory, labels of the taxonomy, ids of checks and remedies."""

    intent: Intent = Intent.NOT_UNDERSTOOD
    text: str = ""
    sure: bool = True
    """Whether the rules are sure; a model may be asked about the rest."""
    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()
    """Named like hosts, and none that may be spoken of."""
    left_out: tuple[str, ...] = ()
    """Hosts that it excepts: “all but gpu-003”. Nothing is asked for there."""
    group: str = ""
    """A group of the inventory, `ALL` or `OTHERS`."""
    job: str = ""
    labels: tuple[str, ...] = ()
    """Causes that were named, by label, title or a plain word (“ECC”, “cable”)."""
    category: str = ""
    """A category of the taxonomy, where no single cause was named (“the network”)."""
    check: str = ""
    remedy: str = ""
    guide: str = ""
    """A guide as it was called; it may be none that there is."""
    device: str = ""
    """`gpu3`, `mlx5_2`."""
    person: str = ""
    """A Slack user id, where somebody was named."""
    at: datetime | None = None
    """A time that was named: since when, until when."""
    audience: str = ""
    """`manager` or `ticket`, for a summary."""
    form: str = ""
    """`file` or `picture`, where output is wanted as one."""
    picture: str = ""
    """`timeline`, `walk` or `bandwidth`, where one of these is to be drawn."""
    predicate: Predicate = ""
    """What it asks, where yes or no answers it; empty where some of its words are not read."""
    suggestions: tuple[Intent, ...] = ()
    """The two nearest intents, where none was understood."""

    @property
    def kind(self) -> InboxItemKind:
        """What the message becomes in the inbox."""
        return INTENTS[self.intent].item

    def build_item_data(self) -> dict[str, Any]:
        """For an inbox item: plain JSON, defaults and the text left out. What a command names it means exactly, so that stands beside it."""
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
    """What a text may name, for the place where it is said. Made once for a place: what is looked up in it is put together once."""

    hosts: Collection[str] = ()
    domains: Collection[str] | None = None
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    """Label → title."""
    checks: Collection[str] = ()
    remedies: Mapping[str, str] = field(default_factory=dict)
    """Remedy → title."""

    @cached_property
    def host_index(self) -> HostIndex:
        """The hosts under the spellings that people use."""
        return HostIndex(self.hosts, self.domains)


def get_parsed_message(item: InboxItem) -> ParsedMessage | None:
    """What was understood when the item came in; None for items that are no message of a person."""
    row = item.data.get("said")
    return ParsedMessage.model_validate({**row, "text": item.text}) if isinstance(row, Mapping) else None
