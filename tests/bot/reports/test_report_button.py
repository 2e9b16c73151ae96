"""The report button: a PDF in the thread, one at a time, and the requester is told about a failure."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from fakeredis import FakeAsyncRedis

from bot.incidents.publishing.incident_reports import IncidentReportWriter
from bot.incidents.publishing.report_attachments import ReportAttachments, has_attachments
from bot.refusal import Refusal
from bot.reports.drawing_source import DrawingSource
from bot.reports.incident_sources import IncidentSources, TenantReportContext, use_id_as_name
from bot.reports.page_formats import PageFormat, parse_page_format
from bot.slack.client import build_slack_client
from bot.slack.posted_messages import PostedCards
from bot.tasks import BackgroundTasks
from deploy.sandbox.slack import SlackSandbox
from graph.report import Report
from graph.state import Origin
from tests.bot.reports.samples import one_host
from tests.bot.reports.test_customers import SITE, WORDS
from tests.support.fakes_bot import OPS, TEAM

pytestmark = pytest.mark.slow


ANTON = "U0ANTON"


class Desk:
    """Reports to Slack from stored incidents."""

    def __init__(self, slack: SlackSandbox, sources: IncidentSources, thread: str) -> None:
        self.slack, self.tasks = slack, BackgroundTasks()
        self.pages = IncidentReportWriter(build_slack_client(slack.bot_token, slack.api_url, tries=1), sources, self.tasks)
        self.place = Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=thread, user=ANTON)

    def files(self) -> list[str]:
        return [file["name"] for message in self.slack.thread(OPS, self.place.thread_ts) for file in message.get("files") or []]

    def told(self) -> str:
        return str(self.slack.whispers("anton"))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with SlackSandbox() as slack:
        kept = await one_host()
        made = Desk(slack, kept.sources, await slack.say("olga", OPS, "job 4711 hangs"))
        yield made
        await made.tasks.aclose()


@pytest.mark.parametrize(
    ("words", "form"),
    [
        *(
            (words, "md")
            for words in ("report as markdown", "report as md", "report in Markdown please", "report.md", "Bericht als Markdown")
        ),
        *((words, "pdf") for words in ("report", "report as pdf", "write the report", "the command report", "")),
    ],
)
async def test_the_page_comes_in_the_format_that_was_asked_for(desk: Desk, words: str, form: PageFormat) -> None:
    assert parse_page_format(words) == form
    desk.pages.begin_report("inc-1", desk.place, parse_page_format(words))
    await desk.tasks.wait_until_idle()
    assert desk.files() == [f"inc-1-report.{form}"]


async def test_the_page_comes_as_a_file_into_the_thread(desk: Desk) -> None:
    desk.pages.begin_report("inc-1", desk.place)
    with pytest.raises(Refusal, match="is being written"):
        desk.pages.begin_report("inc-1", desk.place)
    await desk.tasks.wait_until_idle()
    assert desk.files() == ["inc-1-report.pdf"]
    desk.pages.begin_report("inc-1", desk.place)
    await desk.tasks.wait_until_idle()
    assert len(desk.files()) == 2, "the incident went on, and may be written down again"


async def test_a_report_requested_in_words_is_posted_once(desk: Desk) -> None:
    kept = await one_host()
    client = build_slack_client(desk.slack.bot_token, desk.slack.api_url, tries=1)
    outputs = ReportAttachments(
        client, PostedCards(FakeAsyncRedis()), kept.evidence, DrawingSource(kept.evidence, use_id_as_name), desk.pages
    )
    answered = Report(item="said-1", outcome="diagnosed", page=True)
    assert has_attachments(answered, kept.state)
    for _ in range(2):  # the turn is reported again
        await outputs.upload_report_files(desk.place, "inc-1", answered, kept.state)
        await desk.tasks.wait_until_idle()
    assert desk.files() == ["inc-1-report.pdf"]


async def test_a_customers_trouble_is_told_in_their_words_and_names_no_command(desk: Desk) -> None:
    side = TenantReportContext(SITE, WORDS, {OPS: "de"})
    desk.pages.begin_tenant_report("inc-1", desk.place, side, withdrawn=False)  # not reported by a tenant
    await desk.tasks.wait_until_idle()
    assert "ließ sich gerade nicht erstellen" in desk.told()
    assert "rackmedic" not in desk.told().partition("ließ")[2]
    assert desk.files() == []


async def test_an_unknown_incident_is_reported_to_the_person(desk: Desk) -> None:
    desk.pages.begin_report("inc-9", desk.place)
    await desk.tasks.wait_until_idle()
    assert "no such incident" in desk.told()
    assert desk.files() == []


@pytest.mark.parametrize(
    ("trouble", "why"), [(ConnectionError("away"), "did not answer"), (RuntimeError("bug"), "something went wrong here")]
)
async def test_trouble_is_told_to_who_pressed_and_leaves_no_dead_button(desk: Desk, trouble: Exception, why: str) -> None:
    async def broken(incident: str) -> object:
        raise trouble

    whole = desk.pages._sources
    desk.pages._sources = replace(whole, state_of=broken)  # type: ignore[arg-type]  # it never answers
    desk.pages.begin_report("inc-1", desk.place)
    await desk.tasks.wait_until_idle()
    assert why in desk.told()
    desk.pages._sources = whole
    desk.pages.begin_report("inc-1", desk.place)
    await desk.tasks.wait_until_idle()
    assert desk.files() == ["inc-1-report.pdf"]
