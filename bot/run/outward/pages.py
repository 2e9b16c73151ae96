"""What an incident's pictures and its page are drawn and written from, put together: the thread's buttons read what `rackmedic report` reads."""

from functools import partial

from bot.desk.courses import Courses
from bot.postmortem.drawings import DrawnFrom
from bot.postmortem.figures import reached
from bot.postmortem.gather import IncidentSources
from bot.run.actions import Acting
from bot.slack.client import SlackClient
from bot.slack.outgoing.pages import IncidentPages
from bot.slack.people import People
from bot.tasks import Background
from graph.ports import Ports
from graph.stored import StoredIncidents


def drawn_from(ports: Ports, people: People, acting: Acting) -> DrawnFrom:
    """For pictures in a thread."""
    expected = partial(reached, ports.inventory, ports.skus)
    return DrawnFrom(ports.evidence, people.name, ports.taxonomy.titles, expected, acting.ledger.of_incident)


def incident_pages(
    ports: Ports, client: SlackClient, people: People, background: Background, stored: StoredIncidents, acting: Acting, courses: Courses
) -> IncidentPages:
    """For a page that is put into a thread."""
    expected, titles = partial(reached, ports.inventory, ports.skus), ports.taxonomy.titles
    reads = ports.evidence, ports.clock, acting.ledger, "", courses.course, people.name, titles, expected
    return IncidentPages(client, IncidentSources(stored.state, *reads), background)
