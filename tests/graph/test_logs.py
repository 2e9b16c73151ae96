"""Long logs become templates with counts, times and positions for card, ticket and model."""

import json
from datetime import UTC, datetime

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from bot.incidents.cards import diagnosis, handoff_card
from bot.incidents.cards.handoff_content import build_handoff, format_evidence_file
from graph.extraction.log_digests import (
    MAX_LOGS_PER_INCIDENT,
    MAX_TEMPLATES_PER_INCIDENT,
    build_job_log_digest,
    digest_log,
    format_log_digest,
    is_log,
    merge_log_digests,
    select_telling_templates,
)
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import Report
from graph.state import Attachment, InboxItem, IncidentState, LogDigest, LogTemplate
from tests.support.fakes_graph import FakeFleet, FakeModel, World, fact, healthy, instead, item
from tools.checks import CHECKS
from tools.fact import Fact

NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
STEP = "[2026-05-20 03:{:02}:{:02}] iteration {:8d}/ 500000 | lm loss: {:.6E} | grad norm: 0.{:03d} |\n"
QUOTA = "2026-05-20 03:{:02}:30,000 ERROR store.py: shard {} of /data/part-{}: disk quota is exceeded\n"
HANG = "2026-05-20 03:09:59,000 ERROR rank 7 is stuck in all_reduce\n"
HOSTS = ("n1", "n2", "n3", "n4")


def long_log(steps: int = 100_000) -> str:
    """Return a training log with an error line every thousand steps and a final failure."""
    rows = []
    for n in range(steps):
        rows.append(STEP.format(n // 60 % 9, n % 60, n, 2 + n / 1e6, n % 1000))
        rows += [QUOTA.format(n // 12_000, n, n)] if n % 1000 == 0 else []
    return "".join((*rows, HANG))


class Desk:
    """Turns of one incident whose hosts do not explain it."""

    def __init__(self) -> None:
        self.world = World(
            fleet=FakeFleet(
                instead(
                    healthy(*HOSTS), fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0"), fact("n2", "nccl1", "check.skipped", "busy")
                )
            ),
            model=FakeModel(),
        )
        self.graph = build_incident_graph(InMemorySaver())

    async def turn(self, given: InboxItem) -> Report:
        return await run_turn(self.graph, self.world.ports(), given)

    async def state(self) -> IncidentState:
        return (await self.graph.aget_state({"configurable": {"thread_id": "inc-1"}})).values  # type: ignore[return-value]

    @property
    def shown(self) -> list[str]:
        """Return the findings that the model was shown."""
        assert self.world.model is not None
        return self.world.model.shown


@pytest.fixture(scope="module")
def pasted() -> InboxItem:
    return item("n2 is slow", attachments=(Attachment(name="train.log", text=long_log()),))


TEMPLATES = (
    "100× 05-20 03:00:30Z–05-20 03:08:30Z lines 2–99101: <time> ERROR store.py: shard <n> of <path>: disk quota is exceeded",
    "1× 05-20 03:09:59Z line 100101: <time> ERROR rank <n> is stuck in all_reduce",
)


async def test_of_a_hundred_thousand_lines_card_ticket_and_model_see_templates_with_counts(pasted: InboxItem) -> None:
    desk = Desk()
    report = await desk.turn(pasted)
    assert report.outcome == "abstained"
    handed = await desk.turn(item("", "hand_off"))
    state = await desk.state()
    card, page = (
        json.dumps(shown, ensure_ascii=False)
        for shown in (diagnosis.render_diagnosis("inc-1", report).blocks, handoff_card.render_ticket(build_handoff(state)).blocks)
    )
    assert desk.shown
    for line in TEMPLATES:
        assert all(line in said for said in (*desk.shown, state["ticket"]["summary"], format_evidence_file(build_handoff(state), {})))
        assert all(line.replace("<", "&lt;").replace(">", "&gt;") in said or line in said for said in (card, page))
    assert "train.log: 100,101 lines, 100,000 of them regular, stored as " in state["ticket"]["summary"]
    assert handed.logs == report.logs


async def test_an_incident_without_a_long_log_keeps_nothing_of_logs() -> None:
    desk = Desk()
    report = await desk.turn(item("n2 is slow", attachments=(Attachment(name="a.txt", text="one line\nand another\n"),)))
    assert report.logs == ()
    assert "logs" not in await desk.state()
    assert not any("lines" in said for said in desk.shown)


async def test_the_numbers_of_lines_lead_back_into_the_stored_text(pasted: InboxItem) -> None:
    desk = Desk()
    await desk.turn(pasted)
    (row,) = (await desk.state())["logs"]
    stored = ((await desk.world.evidence.get_text(row["sha256"])) or "").splitlines()
    for template in LogDigest.model_validate(row).templates:
        for line in (template.line, template.last_line):
            assert "ERROR" in stored[line - 1]


def log(name: str, templates: int) -> LogDigest:
    rows = tuple(LogTemplate(text=f"{name} says {n}", count=1, line=n, last_line=n) for n in range(1, templates + 1))
    return LogDigest(name=name, sha256=name, lines=templates, templates=rows)


def test_of_many_logs_the_newest_are_kept_and_of_all_together_sixty_templates() -> None:
    rows = merge_log_digests([log(f"old{n}", 60) for n in range(4)], [log("new", 60)])
    assert [row.name for row in rows] == ["old1", "old2", "old3", "new"]
    assert len(rows) == MAX_LOGS_PER_INCIDENT
    assert sum(len(row.templates) for row in rows) == MAX_TEMPLATES_PER_INCIDENT
    assert all(row.left_out + len(row.templates) == row.lines for row in rows)
    assert merge_log_digests(rows, [rows[-1]]) == rows


def test_a_handful_is_what_tells_most_in_the_order_of_the_log() -> None:
    quiet, bad = log("quiet", 50), LogTemplate(text="unit foo failed", count=3, line=4, last_line=9)
    (row,) = select_telling_templates([quiet.model_copy(update={"templates": (bad, *quiet.templates)})], 2)
    assert [template.text for template in row.templates] == ["unit foo failed", "quiet says 50"]


@pytest.mark.parametrize(
    ("text", "log"),
    [
        ("a line\n" * 19, False),
        ("a line\n" * 20, True),
        ("<?xml version='1.0'?>\n" + "<gpu/>\n" * 50, False),
        ("{\n" + '"a": 1,\n' * 50 + "}\n", False),
        ('{"MESSAGE": "x"}\n' * 50, True),
        ("[2026-05-20 03:00:00] step 1\n" * 50, True),
        ("==============NVSMI LOG==============\n" + "Attached GPUs : 8\n" * 50, False),
    ],
)
def test_a_log_is_told_from_a_document(text: str, log: bool) -> None:
    assert is_log(text) is log
    assert (digest_log("x", "sha", text, NOW) is not None) is log


def job_log(host: str, *, quiet: bool = False) -> list[Fact]:
    text = "".join(STEP.format(1, n % 60, n, 2.0, n) for n in range(300)) + ("" if quiet else HANG)
    return [
        row.locate(host, time=NOW, sha256=f"sha of {host}")
        for row in CHECKS["joblog"].parse_output(f"==> /var/log/jobs/7/rank_0.log <==\n{text}")
    ]


def test_a_look_at_the_job_s_log_keeps_what_tells_of_it() -> None:
    (row,) = [row for row in job_log("n1") if row.key == "job.log"]
    assert row.attrs["lines"] == 302
    assert row.attrs["templates"] == [
        {"text": "<time> ERROR rank <n> is stuck in all_reduce", "count": 1, "line": 302, "last_line": 302}
        | dict.fromkeys(("first", "last"), "2026-05-20T03:09:59+00:00")
    ]


def test_the_same_template_of_several_hosts_is_one() -> None:
    digest = build_job_log_digest([*job_log("n1"), *job_log("n2"), *job_log("n3", quiet=True)])
    assert digest is not None
    head, line = format_log_digest(digest)
    assert head.startswith("the job on n[1-2]: 604 lines")
    assert line == "  2× 05-20 03:09:59Z: <time> ERROR rank <n> is stuck in all_reduce"
    assert build_job_log_digest(job_log("n1", quiet=True)) is None


def test_one_host_s_log_is_pointed_into() -> None:
    digest = build_job_log_digest(job_log("n1"))
    assert digest is not None
    assert format_log_digest(digest) == [
        "the job on n1: 302 lines, stored as sha of n1",
        "  1× 05-20 03:09:59Z line 302: <time> ERROR rank <n> is stuck in all_reduce",
    ]
