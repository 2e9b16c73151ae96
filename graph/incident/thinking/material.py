"""What a model is given to read of an incident, from everything that is known of it: bounded texts, and lines that can be cited."""

from collections.abc import Sequence

from graph.engine.assess import Assessment
from graph.incident.case import Case
from graph.incident.questions import digest_of
from graph.incident.questions import notes_on as mistaken
from graph.learning.noted import Concerns, notes_on
from graph.model.reasoner import Material
from graph.ports import Ports
from graph.reading.logs import handful, in_words
from graph.state import Brief, LogDigest
from kb.scan import lines_in

MOST_OFFERED = 40
"""Labels that a reading may choose from: the likeliest by what is known."""
ALIKE, TEMPLATES = 4, 12
"""Past incidents and templates of logs that it is shown."""


async def material_of(brief: Brief, logs: Sequence[LogDigest], case: Case, ports: Ports, findings: str = "") -> Material:
    """The report, and what stands beside it. A site's own pages are for our own people's incidents alone."""
    alike = await ports.history.similar(brief.text, ALIKE, case.reader) if brief.text else []
    past = [f"{ports.taxonomy.title(one.label)} ({one.label}): {one.title}" for one in alike if one.label in ports.taxonomy.leaves]
    said = "\n".join(line for log in handful(logs, TEMPLATES) for line in in_words(log))
    return Material(brief.text, said, past, _pages(brief, case, ports), findings)


def _pages(brief: Brief, case: Case, ports: Ports) -> list[str]:
    if not ports.pages or case.reader is not None:
        return []
    hosts = [ports.inventory.hosts[name] for name in brief.hosts if name in ports.inventory.hosts]
    return [f"{note.title}: {line}" for note in notes_on(ports.pages, Concerns.of(brief.text, (), hosts)) for line in note.says]


def findings_of(now: Assessment, notes: Sequence[str] = ()) -> list[str]:
    """What was found on the machines, a line each; `notes` ahead of it."""
    return lines_in(digest_of(now, (), notes))


def learnt(case: Case, labels: Sequence[str], ports: Ports) -> list[str]:
    """What people here corrected before about these causes, for a model to read."""
    return mistaken(labels, ports.mistakes(case.reader), ports.taxonomy.titles)
