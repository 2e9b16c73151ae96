"""Past incidents as people recorded them: the seed files, later the accepted lessons. The files are the truth, any index is rebuilt from them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from kb.history.words import joined
from kb.yaml import Node, Problems, Row, read

SEEDS = Path(__file__).parent / "seed"
_FIELDS = ("id", "title", "description", "label", "hosts", "deciding_check", "root_cause", "resolution", "source_url")


class BadSeeds(Exception):
    """Seed files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class PastIncident:
    """What was seen, what it was, and which look settled it."""

    id: str
    title: str
    description: str
    label: str
    root_cause: str
    resolution: str
    deciding_check: str = ""
    source_url: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What a new ticket is compared with: the symptom counts twice, the answer once."""
        return joined((self.title, self.description, self.title, self.root_cause))


def load_seeds(folder: Path = SEEDS, labels: Collection[str] | None = None) -> tuple[PastIncident, ...]:
    """Every incident of a folder. `labels`: the labels that exist, when they are to be checked. Raises BadSeeds."""
    problems = Problems()
    found: dict[str, PastIncident] = {}
    for path in sorted(folder.glob("*.y*ml")):
        document = read(path, problems)
        for row, incident in _incidents(document, problems) if document else ():
            if incident.id in found:
                row.note("id", f"{incident.id} stands twice")
            if labels is not None and incident.label not in labels:
                row.note("label", f"unknown label {incident.label}")
            found[incident.id] = incident
    if problems.found:
        raise BadSeeds(problems.found)
    return tuple(found.values())


def _incidents(document: Node, problems: Problems) -> Iterator[tuple[Row, PastIncident]]:
    top = Row(document, problems, "seed file")
    top.only("incidents")
    for row in top.rows("incidents", "incident"):
        row.only(*_FIELDS)
        url = row.text("source_url", default="")
        if url and not url.startswith("https://"):
            row.note("source_url", f"not an https address: {url}")
        yield (
            row,
            PastIncident(
                id=row.text("id"),
                title=row.text("title"),
                description=row.text("description"),
                label=row.text("label"),
                root_cause=row.text("root_cause"),
                resolution=row.text("resolution"),
                deciding_check=row.text("deciding_check", default=""),
                source_url=url,
                hosts=row.texts("hosts"),
            ),
        )
