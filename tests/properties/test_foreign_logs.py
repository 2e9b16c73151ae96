"""Logs of several tenants in one folder: what is not proven to be a tenant's stays internal. Another tenant's error
lies beside a tenant's own logs, on healthy machines, with every kind of wrong or missing ownership; then every
output is searched. Operators see it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

import pytest

from bot.incidents.dispatch.closed_incidents import build_closed_incident
from bot.lessons.services import build_lesson_drafter
from bot.provider.ticket_states import TicketStates
from bot.provider.wire_messages import StatesRequest
from bot.reports.page import sanitize_page
from bot.reports.page_formats import write_markdown
from bot.reports.tenant_report import render_tenant_page
from bot.tenants.cards import past_incidents, tenant_card
from bot.tenants.cards.answers import AnswerKind, render_answer
from bot.tenants.cards.view import TenantView, TenantViewContext, build_tenant_view, build_tenant_view_context, get_no_slot_values
from deploy.sandbox.cluster.access.case_run import CaseRun, build_case_run
from graph.incident_view import IncidentView
from graph.state import SIDE_KEY, TENANT_SIDE, Attachment, FileSource, InboxItem, IncidentState, Origin
from kb.history.lessons import Lesson
from kb.taxonomy.loader import load_taxonomy
from tests.properties.test_canaries import ALIASES, CHANNELS, ORIGIN, OURS, THEIRS, WORDS
from tests.support.clock import T0
from tests.support.talk import Talk, case_of
from tools.fact import FROM_FILE
from tools.inventory.inventory import Inventory
from tools.transport import CommandResult

pytestmark = pytest.mark.tier2

LABEL = "USER.CODE.Batch_Too_Large_OOM"
LINE = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB for canary_weights."
LOG = f"step 1\n{LINE}\n"
OWN_JOB = "uid=1001 job=4711 nodes=gpu-[003-004]"
FOREIGN = {
    "a job elsewhere": "uid=2002 job=900 nodes=canary-b1",
    "a job here and elsewhere": "uid=2002 job=900 nodes=gpu-003,canary-b1",
    "a job of no known node": "uid=2002 job=900 nodes=gpu-9",
    "nodes that cannot be read": "uid=2002 job=900 nodes=gpu-[003",
    "no job": "uid=2002 job=- nodes=-",
    "no nodes": "uid=2002 job=900 nodes=-",
    "root's": "uid=0 job=4711 nodes=gpu-[003-004]",
    "no word of an owner": "",
    "an owner that cannot be read": "uid=x job=4711 nodes=gpu-[003-004]",
}


@dataclass(frozen=True)
class LaidBeside:
    """A cluster with one more log in the folder of its first machine, marked with `owner`."""

    stage: CaseRun
    owner: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage.transport, name)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        ran = await self.stage.transport.run(host, argv, timeout=timeout, cap=cap)
        if host != OURS[0] or not ran.stdout.startswith(b"== logs "):
            return ran
        mark = ran.text.split()[2]
        log = f"==> /shared/logs/900/rank_0.log <==\n== of {self.owner} {mark}\n{LOG}"
        return replace(ran, stdout=ran.stdout + log.encode())


def two_tenants(inventory: Inventory) -> Inventory:
    """Return the cluster's machines as one tenant's, plus unreachable machines of another."""
    hosts = {name: row.model_copy(update={"tenant": "acme" if name in OURS else ""}) for name, row in inventory.hosts.items()}
    hosts |= {name: hosts[OURS[0]].model_copy(update={"name": name, "tenant": "canary-tenant"}) for name in THEIRS}
    hosts |= {name: hosts[name].model_copy(update={"alias": ALIASES[name]}) for name in OURS}
    return inventory.model_copy(update={"hosts": hosts, "channels": CHANNELS})


def talk(owner: str | None = None, origin: Origin = ORIGIN) -> Talk:
    stage = build_case_run(case_of(nodes=OURS), controller="slurm-controller")
    stage = replace(stage, inventory=two_tenants(stage.inventory))
    return Talk.over(replace(stage, transport=cast(Any, LaidBeside(stage, owner))) if owner is not None else stage, origin)


def reader(inventory: Inventory, origin: Origin = ORIGIN) -> TenantViewContext:
    return build_tenant_view_context(inventory, WORDS, origin, "en", get_no_slot_values, ())


def lesson_of(rows: IncidentView, inventory: Inventory) -> Lesson | None:
    ticket = {"true_label": LABEL, "true_cause": "it needs more memory"}
    state = cast(IncidentState, {**rows.stored, "lifecycle": "closed", "ticket": ticket})
    return build_lesson_drafter(inventory, load_taxonomy())(state, T0)


class Kept:
    """One incident as the inbox and the provider message store hold it."""

    async def get_origin(self, incident: str) -> Origin:
        return ORIGIN.model_copy(update={"ticket": "acme/inc-9", "customer": None})

    async def get_lifecycle(self, incident: str) -> str:
        return "open"

    async def list_messages_after(self, incident: str, seen: int) -> tuple[()]:
        return ()


async def over_the_link(rows: IncidentView, inventory: Inventory) -> str:
    async def state_of(incident: str) -> IncidentState:
        return rows.stored

    async def begun(incident: str) -> frozenset[str]:
        return frozenset()

    kept = cast(Any, Kept())
    states = TicketStates(kept, inventory, WORDS, state_of, begun, kept)
    return (await states.answer_states_request("acme", StatesRequest(tickets=("inc-1",), after={"inc-1": 0}))).model_dump_json()


async def doors(told: Talk) -> Mapping[str, str]:
    """Return everything the tenant can see of the incident, by place."""
    rows, inventory = await told.rows(), told.ports.inventory
    of = reader(inventory)
    view = build_tenant_view(rows, of)
    cards = {
        "card": tenant_card.render_tenant_card(view),
        "news": tenant_card.render_update(view),
        "asked": tenant_card.render_progress_answer(view),
        "again": tenant_card.render_recheck_result(view, tenant_reports_failure=True),
    }
    cards |= {f"answer {kind}": render_answer(kind, view, OURS, ()) for kind in get_args(AnswerKind)}
    closed = build_closed_incident(cast(IncidentState, {**rows.stored, "lifecycle": "closed"}), T0)
    assert closed
    lesson = lesson_of(rows, inventory)
    return {
        **{name: json.dumps([card.text, card.blocks], ensure_ascii=False) for name, card in cards.items()},
        "draft of what people tell": tenant_card.build_operator_draft(view),
        "page": write_markdown(sanitize_page(render_tenant_page(view, rows.opened_at, T0))).decode(),
        "link": await over_the_link(rows, inventory),
        "earlier": "\n".join(past_incidents.format_past_incidents([closed], ORIGIN, of)),
        "sought": repr(past_incidents.build_past_query(rows, ORIGIN, of).labels),
        "lesson": lesson.model_dump_json() if lesson and lesson.can_serve_tenant("acme") else "",
        "export": lesson.model_dump_json() if lesson and not (lesson.tenant or lesson.inside) else "",
    }


def signs(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the places that show the other tenant's error, by its line or cause."""
    said = WORDS.get_cause_words(LABEL, "en")
    for door, text in texts.items():
        if any(word in text for word in ("canary", LABEL, said.title, said.words)):
            yield door


async def view_of(told: Talk) -> TenantView:
    return build_tenant_view(await told.rows(), reader(told.ports.inventory))


async def test_a_log_of_their_own_job_is_told_at_every_door() -> None:
    told = talk(OWN_JOB)
    await told.reports("job 4711 died on gpu-[003-004]")
    rows = await told.rows()
    assert rows.report
    assert (rows.report.outcome, rows.report.crossing) == ("diagnosed", None)
    [cause] = (await view_of(told)).causes
    assert cause.shows == (LINE.replace("gpu-003", "train-01"),)
    shown = set(signs(await doors(told)))
    assert {"card", "answer why", "draft of what people tell", "page", "link", "earlier", "sought", "lesson"} <= shown


@pytest.mark.parametrize("owner", ["a job elsewhere", "no job", "root's", "no word of an owner"])
async def test_a_log_that_is_not_established_as_theirs_is_told_at_no_door(owner: str) -> None:
    told = talk(FOREIGN[owner])
    await told.reports("job 4711 died on gpu-[003-004]")
    rows = await told.rows()
    assert rows.report
    assert [cause.label for cause in rows.report.root_causes] == [LABEL], "our own people see it"
    assert LINE in {found.line for found in rows.report.root_causes[0].evidence}
    assert not list(signs(await doors(told)))
    view = await view_of(told)
    assert (view.stage, view.questions[:1], view.state, rows.lifecycle) == ("asked", ("q_log",), "", "waiting")


async def test_their_own_log_that_says_the_same_is_told_once_they_hand_it_in() -> None:
    told = talk(FOREIGN["no job"])
    await told.reports("job 4711 died on gpu-[003-004]")
    sha256 = await told.ports.evidence.put_text("inc-1", LOG.replace("canary", "own"))
    await hands_in(told, sha256, **{SIDE_KEY: TENANT_SIDE})
    view = await view_of(told)
    assert view.stage == "yours"
    assert view.causes[0].shows == (LINE.replace("canary", "own"),)
    assert "canary" not in "".join((await doors(told)).values())


async def test_a_customer_is_asked_for_their_log_once_and_then_people_go_on() -> None:
    told = talk(FOREIGN["no job"])
    await told.reports("job 4711 died on gpu-[003-004]")
    at = told.stage.clock.now()
    said = InboxItem(
        id="more", kind="reply", incident="inc-1", at=at, user="U2", text="job 4711 died again on gpu-003", data={SIDE_KEY: TENANT_SIDE}
    )
    await told._turn(said)
    rows = await told.rows()
    assert ((await view_of(told)).stage, rows.lifecycle) == ("people", "handed_off")
    assert rows.ticket
    assert rows.ticket.handed
    assert not list(signs(await doors(told)))


async def test_a_log_that_our_own_people_hand_in_is_not_told_and_people_go_on() -> None:
    told = talk()
    await told.reports("job 4711 died on gpu-[003-004]")
    text = f"== logs {'1' * 20}\n==> /shared/logs/4711/rank_0.log <==\n== of {OWN_JOB} {'1' * 20}\n{LOG}"
    await hands_in(told, await told.ports.evidence.put_text("inc-1", text))
    rows = await told.rows()
    assert rows.report
    assert [cause.label for cause in rows.report.root_causes] == [LABEL]
    assert not list(signs(await doors(told)))
    assert (await view_of(told)).stage == "people"
    assert rows.ticket
    assert rows.ticket.handed, "the customer is told that a person looks, and one does"


async def hands_in(told: Talk, sha256: str, **data: Any) -> None:
    at = told.stage.clock.now()
    given = Attachment(name="train.log", size=len(LOG), sha256=sha256)
    await told._turn(
        InboxItem(id="file", kind="reply", incident="inc-1", at=at, user="U2", text="the log", attachments=(given,), data=data)
    )


async def test_what_only_a_foreign_log_shows_beside_a_fault_of_ours_does_not_hide_it() -> None:
    told = talk()
    case = case_of({"id": "G07", "node": "gpu-004", "gpu": 5, "t": -420}, nodes=OURS)
    stage = build_case_run(case, controller="slurm-controller")
    stage = replace(stage, inventory=two_tenants(stage.inventory))
    told = Talk.over(replace(stage, transport=cast(Any, LaidBeside(stage, FOREIGN["no job"]))), ORIGIN)
    await told.reports("job 4711 died on gpu-[003-004]")
    view = await view_of(told)
    assert (view.stage, view.avoid) == ("ours", ("train-02",))
    assert not list(signs(await doors(told)))


async def test_a_lesson_of_our_own_incident_on_a_customers_machines_serves_them_only_by_their_own_logs() -> None:
    ours = Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="2.0", user="U0PRIYA")
    for owner, serves in ((OWN_JOB, True), (FOREIGN["a job elsewhere"], False), (FOREIGN["no job"], False)):
        told = talk(owner, ours)
        await told.reports("job 4711 died on gpu-[003-004]")
        lesson = lesson_of(await told.rows(), told.ports.inventory)
        assert lesson
        assert (lesson.can_serve_tenant("acme"), lesson.can_serve_tenant(None)) == (serves, True)


async def test_every_fact_of_a_file_says_which_file_whose_and_of_which_job() -> None:
    told = talk(FOREIGN["no job"])
    await told.reports("job 4711 died on gpu-[003-004]")
    read = [fact for fact in await told.facts() if fact.check == "joblog" and fact.value is not None]
    assert {fact.key for fact in read} >= {"job.error", "job.log", "job.ranks"}
    sources = {FileSource.from_fact(fact) for fact in read}
    assert FileSource(path="/shared/logs/900/rank_0.log", uid=2002) in sources
    assert all(fact.attrs[FROM_FILE]["path"].startswith("/") and "uid" in fact.attrs[FROM_FILE] for fact in read)
