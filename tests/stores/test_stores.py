"""A store that was written before this code goes on under it: everything verifies, reads as it was meant, and can be decided and run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis

from graph.rows import read_ladders
from graph.stored import StoredIncidents
from tests.stores.kept import Kept
from tests.support.fakes_actions import ANN, BOB, CID, Office
from tests.support.fakes_graph import fact
from tools.ledger.record import AlreadyVoted, WrongDigest
from tools.ledger.states import State

STATES = {
    "done drain_node": State.DONE,
    "done gpu_reset": State.DONE,
    "done resume_node": State.DONE,
    "failed": State.FAILED,
    "needless": State.SUPERSEDED,
    "covering action": State.DONE,
    "unknown": State.UNKNOWN,
    "expired action": State.EXPIRED,
    "denied action": State.DENIED,
    "executing action": State.EXECUTING,
    "voted action": State.PENDING,
    "replaced": State.SUPERSEDED,
    "edit": State.PENDING,
    "approved action": State.APPROVED,
}


@pytest.fixture(params=["2026-11-21.json.xz"])
def kept(request: pytest.FixtureRequest) -> Kept:
    return Kept(request.param)


@pytest.fixture
async def office(kept: Kept, tmp_path: Path) -> AsyncIterator[Office]:
    async with FakeAsyncRedis() as redis:
        yield await kept.office(redis, tmp_path)


async def reconciled(office: Office, kept: Kept) -> None:
    """Somebody looked at the host in doubt: it did not run."""
    seen = await office.ledger.record(kept.cast["unknown"])
    await office.decisions.reconcile(seen.approval, seen.digest, ANN, False, "looked")


async def test_every_record_verifies_with_the_bytes_people_voted_on(office: Office, kept: Kept) -> None:
    for approval, row in kept.records.items():
        seen = await office.ledger.record(approval)
        assert (seen.action.canonical(), seen.digest, seen.terms.canonical()) == (row["action"], row["digest"], row["request"])
    assert {name: (await office.ledger.record(kept.cast[name])).state for name in STATES} == STATES


async def test_the_audit_chain_is_whole_and_stays_so(office: Office, kept: Kept) -> None:
    before = await office.ledger.verify()
    assert before.good
    assert before.entries > 30
    await office.ledger.resume(BOB)
    after = await office.ledger.verify([before.head])
    assert (after.good, after.entries) == (True, before.entries + 1)


async def test_what_replaced_and_what_covered_an_action_is_still_known(office: Office, kept: Kept) -> None:
    replaced = await office.ledger.record(kept.cast["replaced"])
    needless = await office.ledger.record(kept.cast["needless"])
    assert (replaced.replaced_by, needless.replaced_by) == (kept.cast["edit"], "")
    assert (replaced.covered_by, needless.covered_by) == ("", kept.cast["covering action"])
    assert needless.ended_by == kept.cast["covering action"]


async def test_the_kill_switch_that_was_pulled_is_on_and_says_who_pulled_it(office: Office) -> None:
    status = await office.ledger.status()
    assert (status.stopped_by, status.why) == (BOB, "looking: at the racks")
    await office.ledger.resume(BOB)
    assert not (await office.ledger.status()).stopped


async def test_every_incident_loads_with_its_report_and_its_ladders(office: Office, kept: Kept) -> None:
    for name in ("cured", "covered", "covering", "denied", "edited", "executing", "expired", "in doubt", "stopped", "voted"):
        state = await office.turns.state(kept.cast[name])
        assert state["report"]["headline"], name
        assert read_ladders(state["ladders"]), name
        assert await office.facts_of(kept.cast[name]), name


async def test_the_message_that_waited_gets_its_answer(office: Office, kept: Kept) -> None:
    (report,) = await office.turns_of(kept.cast["stopped"])
    assert (report.item, report.outcome) == ("late", "no_fault")


async def test_a_vote_that_was_begun_is_finished(office: Office, kept: Kept) -> None:
    waiting = await office.ledger.record(kept.cast["voted action"])
    with pytest.raises(AlreadyVoted):
        await office.click(waiting, ANN)
    assert (await office.click(waiting, CID)).state is State.APPROVED


async def test_what_was_approved_starts_once_the_kill_switch_is_off(office: Office, kept: Kept) -> None:
    await reconciled(office, kept)  # it held the one place that its group has
    await office.ledger.resume(BOB)
    office.site.sick(fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3"))
    office.clock.go(minutes=1)
    await office.settle(kept.cast["stopped"])
    seen = await office.ledger.record(kept.cast["approved action"])
    assert (seen.state, seen.outcome) == (State.DONE, "passes_now")
    assert office.site.counts() == {"reset_clocks": 1}


async def test_what_ran_when_its_worker_died_is_found_out_and_not_run_again(office: Office, kept: Kept) -> None:
    office.clock.go(minutes=1)
    await office.settle(kept.cast["executing"])
    seen = await office.ledger.record(kept.cast["executing action"])
    assert (seen.state, seen.outcome, office.site.effects) == (State.DONE, "passes_now", [])


async def test_an_old_card_moves_nothing(office: Office, kept: Kept) -> None:
    replaced = await office.ledger.record(kept.cast["replaced"])
    edit = await office.ledger.record(kept.cast["edit"])
    with pytest.raises(WrongDigest):
        await office.decisions.vote(edit.approval, replaced.digest, ANN, "approve", delivery="old")


async def test_what_a_person_finds_out_about_a_doubt_is_written_down(office: Office, kept: Kept) -> None:
    await reconciled(office, kept)
    assert (await office.ledger.record(kept.cast["unknown"])).state is State.FAILED


async def test_due_times_and_inboxes_name_everything_that_is_owed(office: Office, kept: Kept) -> None:
    office.clock.go(hours=1)
    due = await office.actions.sweep()
    assert due >= 3
    assert {kept.cast["voted action"], kept.cast["edit"], kept.cast["approved action"]} <= {*await office.ledger.due()}


async def test_who_reads_without_the_graph_reads_the_same(office: Office, kept: Kept) -> None:
    stored = StoredIncidents(office.redis)
    for incident in kept.cast.values():
        assert await stored.state(incident) == await office.turns.state(incident)
