"""Past incidents from seed files and accepted lessons. Files are authoritative; indexes are rebuilt."""

import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from kb.history.text_search import join_texts
from kb.schema import StrictModel, Text, Texts
from kb.yaml_files import Problems, list_yaml_files, read_document, validate_document

SEED_FOLDER = Path(__file__).parent / "seed"


class BadSeeds(Exception):
    """Seed files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class PastIncident:
    """A past incident: symptom, cause and deciding check."""

    id: str
    title: str
    description: str
    label: str
    root_cause: str
    resolution: str
    deciding_check: str = ""
    source_url: str = ""
    year: int = 0  # of the source; 0 if unknown
    hosts: tuple[str, ...] = ()
    learnt: str = ""  # this site's incident that taught it; empty for a shipped one
    on: str = ""  # date of that incident
    tenant: str = ""  # serves this tenant and operators only; empty: all
    inside: bool = False  # serves operators only
    trust: float = 1.0  # factor on its similarity, 0 to 1

    def can_serve_tenant(self, tenant: str | None) -> bool:
        """Return whether this tenant's incidents may use it (None: operators)."""
        return tenant is None or (not self.inside and self.tenant in ("", tenant))

    @property
    def text(self) -> str:
        """The title counts twice."""
        return join_texts((self.title, self.description, self.title, self.root_cause))


def load_seeds(folder: Path = SEED_FOLDER, labels: Collection[str] | None = None) -> tuple[PastIncident, ...]:
    """Load a folder's incidents. `labels`, if given, are the valid ones. Raises BadSeeds."""
    return _load_shipped() if folder == SEED_FOLDER and labels is None else _read_folder(folder, labels)


@functools.cache
def _load_shipped() -> tuple[PastIncident, ...]:
    return _read_folder(SEED_FOLDER, None)


def _read_folder(folder: Path, labels: Collection[str] | None) -> tuple[PastIncident, ...]:
    problems = Problems()
    incidents: list[PastIncident] = []
    taken_ids: set[str] = set()
    for document in filter(None, (read_document(path, problems) for path in list_yaml_files(folder))):
        document.note_taken_ids("incidents", taken_ids, problems, "{} stands twice")
        file = validate_document(document, _IncidentFileModel, problems, labels)
        incidents += [row.incident for row in file.incidents] if file else []
    if problems.found:
        raise BadSeeds(problems.found)
    return tuple(incidents)


def _validate_label(label: str, info: ValidationInfo) -> str:
    if info.context is not None and label not in info.context:
        raise ValueError(f"unknown label {label}")
    return label


def _validate_url(url: str) -> str:
    if url and not url.startswith("https://"):
        raise ValueError(f"not an https address: {url}")
    return url


class _IncidentModel(StrictModel):
    id: Text
    title: Text
    description: Text
    label: Annotated[Text, AfterValidator(_validate_label)]
    root_cause: Text
    resolution: Text
    deciding_check: Text = ""
    source_url: Annotated[Text, AfterValidator(_validate_url)] = ""
    year: Annotated[int, Field(ge=1990, le=2100)] = 0
    hosts: Texts = ()

    @property
    def incident(self) -> PastIncident:
        return PastIncident(**self.model_dump())


class _IncidentFileModel(StrictModel):
    incidents: Annotated[tuple[_IncidentModel, ...], Field(min_length=1)]
