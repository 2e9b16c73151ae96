"""What we hold: nodes that we drained and that are not back, each with who approved that, since when, what for, and where it stands. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.ladders.ends import does, stays
from graph.state import Ladder
from kb.taxonomy.labels import Taxonomy


@dataclass(frozen=True, slots=True)
class Held:
    """One node. `by` is a name, empty where nobody noted it; `why` says where its fix stands."""

    ladder: str
    host: str
    label: str
    by: str
    since: datetime | None
    why: str
    going: bool
    """Whether its fix goes on by itself."""

    def in_words(self, title: str = "") -> str:
        """One line for people; `title` is what its label is called."""
        return f"{self.host}: {self.said(title)}"

    def said(self, title: str = "") -> str:
        """The same without the host's name."""
        since = f" since {self.since:%Y-%m-%d %H:%M} UTC" if self.since else ""
        approved = f", approved by {self.by}" if self.by else ""
        cause = f", for {title}" if title else ""
        return f"drained by RackMedic{since}{approved}{cause}; {self.why}"


def held(ladders: Sequence[Ladder]) -> list[Held]:
    """Every node that an incident's fixes hold."""
    return [Held(row.id, row.target, row.label, row.drained_by, row.drained_at, _stands(row), row.open) for row in ladders if row.drained]


def held_by(ladders: Sequence[Ladder], taxonomy: Taxonomy) -> list[str]:
    """The same as lines, and below them what is locked: all that people who take over find held."""
    said = [row.in_words(taxonomy.title(row.label)) for row in held(ladders)]
    said += [f"{row.target} is locked: {row.approval} ended in doubt" for row in ladders if row.outcome == "unknown"]
    return list(dict.fromkeys(said))


def _stands(ladder: Ladder) -> str:
    if ladder.open:
        return "; ".join(filter(None, (ladder.says, f"next: {does(ladder)}")))
    return ladder.says.removesuffix(stays(ladder)).rstrip("; ") or ladder.outcome
