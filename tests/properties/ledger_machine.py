"""The approval ledger against a small model, under any order of events from Hypothesis.

The model gives the reasons to refuse each vote and claim; the ledger must grant exactly those without a reason. Sole
reasons are counted: a run in which the kill switch was the *only* reason fails if the kill switch is missing. Random
rules alone reach little, so each invariant has a rule that leads straight to its situation.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from fakeredis import FakeAsyncRedis, FakeServer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.support.clock import SetClock
from tests.support.fakes_ledger import CATALOGUE, KEY, OTHER_BOOT, POLICY, Desk, Host, expire_due
from tools.action import Action
from tools.execution.runner import start_action
from tools.ledger.brakes import Brakes
from tools.ledger.journal import retry_until_settled
from tools.ledger.seal import Seal

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")
INCIDENTS = ("inc-1", "inc-2", "inc-3")
APPROVERS = frozenset({"T1:ANN", "T1:BOB", "T1:CID"})
CLICKERS = (*sorted(APPROVERS), "T1:EVE", "T2:ANN")
BLAST, AT_ONCE, WINDOW, GROUP_SIZE, BEAT = 2, 2, 3, 30, 30
BRAKES = Brakes(
    blast_hosts=BLAST, at_once=AT_ONCE / GROUP_SIZE, window=WINDOW / GROUP_SIZE, beat_seconds=BEAT
)  # small, so that every brake is reached
OPEN, HOLDS = ("pending", "approved"), ("executing", "unknown")

FORGERIES = ("votes gone", "start_by", "vote", "action", "done again")
FAR = "4102444800000"
STORIES = (
    *(
        "i2_once",
        "i2_a_worker_dies",
        "i3_i4_who_approves",
        "i5_somebody_writes_into_redis",
        "i5_the_key_is_changed",
        "i6_late",
        "i7_the_end_is_the_end",
    ),
    *("i8_somebody_edits_the_audit_log", "i9_the_kill_switch", "i9_the_breaker_is_sticky", "i10_another_version"),
    *("i11_a_precondition_changed", "i12_looking_changes_nothing", "i15_a_click_is_delivered_again", "i19_blast_radius", "i19_at_once"),
    *("i21_one_host_one_action", "i21_a_reboot_covers_a_reset"),
)

hosts, incidents, clickers, processes = (
    st.sampled_from(HOSTS),
    st.sampled_from(INCIDENTS),
    st.sampled_from(CLICKERS),
    st.sampled_from((0, 1)),
)
picks = st.integers(0, 99)


@dataclass
class Card:
    """The model's knowledge of one action."""

    action: Action
    quorum: int
    decide_by: float
    start_by: float = 0
    state: str = "pending"
    yes: set[str] = field(default_factory=set)
    clicks: list[tuple[str, str]] = field(default_factory=list)
    claims: int = 0
    beat_until: float = 0
    forged: bool = False

    @property
    def targets(self) -> set[str]:
        return set(self.action.target.split(","))


class Life(RuleBasedStateMachine):
    """Two processes, one with a wrong clock, five hosts, three incidents, several people."""

    counts: ClassVar[Counter[str]] = Counter()
    begins: ClassVar[str] = STORIES[0]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.redis = FakeAsyncRedis(server=FakeServer())
        self.desk = Desk(self.redis, brakes=BRAKES)
        self.clock, self.wrong = self.desk.clock, SetClock()
        self.books = (self.desk.ledger, self.desk.replica(self.wrong, brakes=BRAKES))
        self.keys = [KEY]
        self.cards: list[Card] = []
        self.held: dict[str, Any] = {}
        self.high, self.skew, self.stopped, self.breaker, self.ran, self.failed = 0.0, 0.0, False, False, False, False
        self.blast: dict[tuple[str, str], float] = {}
        self.window: dict[str, float] = {}

    def teardown(self) -> None:
        self.counts["runs"] += 1
        self.counts["runs with an execution"] += self.ran
        try:
            if not self.failed:
                self.do(self._agrees_to_the_end())
        finally:
            self.do(self.redis.aclose())
            self.runner.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.runner.run(work)
        except BaseException:
            self.failed = True
            raise

    def seen(self, what: str) -> None:
        self.counts[what] += 1

    # -- the model --------------------------------------------------------------------------------------------------

    def now(self, process: int = 0) -> float:
        clock = self.clock if process == 0 else self.wrong
        return max(stamp(clock.at), self.high)

    def go(self, seconds: float) -> None:
        self.clock.go(seconds=seconds)
        self.wrong.at = self.clock.at
        self.wrong.go(seconds=self.skew)

    def why_no_vote(self, card: Card, voter: str, verdict: str, delivery: str, process: int) -> set[str]:
        used = {click for other in self.cards for _, click in other.clicks}
        reasons = {
            "stranger": voter not in APPROVERS,
            "own request": verdict == "approve" and voter in card.action.requested_by.split(","),
            "replayed": delivery in used,
            "forged": card.forged,
            "settled": card.state != "pending",
            "late vote": self.now(process) > card.decide_by,
            "voted before": verdict == "approve" and voter in card.yes,
        }
        return {why for why, holds in reasons.items() if holds}

    def why_no_claim(self, card: Card, process: int, policy: str, gone: frozenset[str]) -> set[str]:
        now, targets, incident = self.now(process), card.targets, card.action.incident
        busy = {t: c for c in self.cards if c.state in HOLDS for t in c.targets}
        blast = {t for (i, t), at in self.blast.items() if i == incident and at > now - 3600}
        window = {t for t, at in self.window.items() if at > now - 600}
        reasons = {
            "not approved": card.state != "approved",
            "another version": policy != POLICY,
            "no quorum": len(card.yes - gone) < card.quorum,
            "late claim": now > card.start_by,
            "stopped": self.stopped,
            "breaker open": self.breaker,
            "target busy": bool(targets & busy.keys()),
            "blast radius": len(blast | targets) > BLAST,
            "fleet limit": len(busy.keys() | targets) > AT_ONCE,
            "breaker trips": len(window | targets) > WINDOW,
            "forged": card.forged,
        }
        return {why for why, holds in reasons.items() if holds}

    # -- acting and comparing
    # ---------------------------------------------------------------------------------------------

    async def propose(self, target: str, incident: str, process: int = 0, remedy: str = "gpu_reset", quorum: int = 1, by: str = "") -> Card:
        action = self.desk.action(target, incident=incident, remedy=remedy, requested_by=by)
        terms = self.desk.terms(quorum=quorum, group_size=GROUP_SIZE, covers=("gpu_reset",) if remedy == "reboot" else ())
        now = self.now(process)
        row = await self.books[process].propose(action, terms)
        self.high = now
        assert row.digest == action.digest, "I5: what is voted on is what was proposed"
        card = Card(action, quorum, now + terms.decide_seconds)
        self.cards.append(card)
        return card

    async def click(self, card: Card, voter: str, verdict: str = "approve", process: int = 0, delivery: str = "") -> None:
        delivery = delivery or f"click-{self.counts['clicks']}"
        self.seen("clicks")
        reasons, now = self.why_no_vote(card, voter, verdict, delivery, process), self.now(process)
        try:
            row = await self.books[process].vote(card.action.approval, card.action.digest, voter, verdict, delivery)
        except self.desk.refusals.Refused as error:
            self._refused("vote", reasons, error)
            return
        assert not reasons, f"I3 I4 I6 I7 I15: a vote counted in spite of {reasons}"
        self.high = now
        card.clicks.append((voter, delivery))
        if verdict == "deny":
            card.state = "denied"
        else:
            card.yes.add(voter)
            if len(card.yes) >= card.quorum:
                card.state, card.start_by = "approved", now + 300
        assert row.state == card.state, "I3: the state follows from who voted"

    async def claim(self, card: Card, process: int = 0, policy: str = POLICY, gone: frozenset[str] = frozenset()) -> Any:
        reasons, now = self.why_no_claim(card, process, policy, gone), self.now(process)
        try:
            held = await self.books[process].claim(
                card.action.approval,
                card.action.digest,
                f"w{process}",
                policy=policy,
                catalogue=CATALOGUE,
                authorised=APPROVERS - gone,
            )
        except self.desk.refusals.Refused as error:
            self._refused("claim", reasons, error)
            self._after_no_claim(card, reasons, now, error)
            return None
        assert not reasons, f"I2 I3 I6 I7 I9 I10 I19 I21: a claim was given in spite of {reasons}"
        self._claimed(card, held, now)
        return held

    def _refused(self, what: str, reasons: set[str], no: Exception) -> None:
        assert reasons, f"a good {what} was refused: {no!r}"
        if len(reasons) == 1:
            self.seen(f"only {next(iter(reasons))}")

    def _after_no_claim(self, card: Card, reasons: set[str], now: float, no: Exception) -> None:
        if card.forged:
            return
        if card.state == "approved" and "another version" in reasons:
            card.state, self.high = "superseded", now
        if isinstance(no, self.desk.refusals.BreakerOpen):
            self.high = now if not self.breaker else self.high
            self.breaker = True

    def _claimed(self, card: Card, held: Any, now: float) -> None:
        assert held.may_start
        assert held.action == card.action, "I5: what runs is what was approved, byte for byte"
        self.high = now
        card.claims += 1
        card.state, card.beat_until = "executing", now + BEAT
        self.held[card.action.approval] = held
        for target in card.targets:
            self.blast[card.action.incident, target] = self.window[target] = now
        for other in self.cards:
            if (
                card.action.remedy == "reboot"
                and other.state in OPEN
                and other.action.remedy == "gpu_reset"
                and not other.forged
                and other.targets <= card.targets
            ):
                other.state = "superseded"
                self.seen("covered by a reboot")
        self.seen("claims")

    async def perform(self, card: Card) -> None:
        held = self.held.pop(card.action.approval)
        before = self.desk.host.effects[card.action.digest]
        lines = await self.desk.audit()
        assert any('"event": "claim"' in line and card.action.digest in line for line in lines), "I8: the audit line precedes the effect"
        row = await self.desk.perform(held)
        card.state = row.state
        self.high = max(self.high, stamp(self.clock.at))
        self.go(0)
        self.ran = self.ran or self.desk.host.effects[card.action.digest] > before

    async def approved(self, target: str, incident: str, **more: Any) -> Card:
        card = await self.propose(target, incident, **more)
        for voter in sorted(APPROVERS - {card.action.requested_by})[: card.quorum]:
            await self.click(card, voter)
        assert card.state == "approved"
        return card

    async def calm(self) -> None:
        """Settle everything and expire every window before a directed rule."""
        for card in self.cards:
            if card.state == "executing":
                await self.adopt_and_settle(card)
            if card.state == "unknown":
                await self.reconcile(card)
        if self.stopped:
            await self.switch(False)
        self.go(3601)
        await self.reset_breaker()

    async def reset_breaker(self) -> None:
        now = self.now()
        await self.books[0].reset_breaker("h100", "T1:BOB")
        self.high, self.breaker = now, False
        self.window.clear()

    async def switch(self, on: bool) -> None:
        now = self.now()
        await (self.books[0].stop("T1:BOB", "drill") if on else self.books[0].resume("T1:BOB"))
        self.high, self.stopped = now, on

    async def adopt_and_settle(self, card: Card) -> None:
        """Wait until the holder's lease has expired, then find out what happened."""
        stale = self.held.get(card.action.approval)
        self.go(max(0.0, card.beat_until - self.now() + 1))
        now = self.now()
        adopted = await self.books[0].adopt(card.action.approval, "w9")
        assert adopted is not None
        assert not adopted.may_start, "I2: who adopts may only find out"
        self.high, card.beat_until, self.held[card.action.approval] = now, now + BEAT, adopted
        if stale is not None:
            await self._stale_is_fenced(stale)
        ran = self.desk.host.effects[card.action.digest]
        await self.perform(card)
        assert self.desk.host.effects[card.action.digest] == ran, "I2: settling has no effect"
        if stale is not None:
            await self._stale_starts_nothing(stale)

    async def _stale_is_fenced(self, stale: Any) -> None:
        for attempt in (self.books[0].send_heartbeat(stale), self.books[0].finish(stale, "done")):
            try:
                await attempt
            except self.desk.refusals.LostClaim:
                continue
            raise AssertionError("I2: who lost its claim still wrote")
        self.seen("stale holder fenced")

    async def _stale_starts_nothing(self, stale: Any) -> None:
        if stale.may_start:
            before = self.desk.host.effects.total()
            await start_action(stale, self.desk.host)
            assert self.desk.host.effects.total() == before, "I2: a worker that slept through its claim has no effect"
            self.seen("stale start refused by the host")

    async def reconcile(self, card: Card) -> None:
        now = self.now()
        row = await self.books[0].reconcile(card.action.approval, "T1:BOB", False, "looked")
        self.high, card.state = now, row.state
        assert row.state == "failed"

    # -- random rules -------------------------------------------------------------------------------------------------

    def card(self, pick: int, *states: str) -> Card | None:
        fitting = [card for card in self.cards if not states or card.state in states]
        return fitting[pick % len(fitting)] if fitting else None

    @rule(
        where=hosts,
        incident=incidents,
        process=processes,
        quorum=st.sampled_from((1, 1, 2)),
        by=st.sampled_from(("", "T1:ANN")),
    )
    def somebody_proposes(self, where: str, incident: str, process: int, quorum: int, by: str) -> None:
        self.do(self.propose(where, incident, process, quorum=quorum, by=by))

    @precondition(lambda self: self.cards)
    @rule(pick=picks, voter=clickers, verdict=st.sampled_from(("approve", "approve", "approve", "deny")), process=processes)
    def somebody_clicks(self, pick: int, voter: str, verdict: str, process: int) -> None:
        card = self.card(pick)
        if card:
            self.do(self.click(card, voter, verdict, process))

    @precondition(lambda self: self.cards)
    @rule(pick=picks, process=processes)
    def somebody_claims(self, pick: int, process: int) -> None:
        card = self.card(pick, "approved") or self.card(pick)
        if card:
            self.do(self.claim(card, process))

    @precondition(lambda self: self.held)
    @rule(pick=picks)
    def a_worker_runs_it(self, pick: int) -> None:
        card = next(c for c in self.cards if c.action.approval == sorted(self.held)[pick % len(self.held)])
        if card.state == "executing":
            self.do(self.perform(card))

    @rule(seconds=st.sampled_from((1, 29, 120, 301, 601, 901)))
    def time_passes(self, seconds: int) -> None:
        self.go(seconds)

    @rule(skew=st.sampled_from((-300, -60, 0, 60, 300)))
    def the_other_process_gets_a_wrong_clock(self, skew: int) -> None:
        self.skew = skew
        self.go(0)

    @rule()
    def somebody_sweeps(self) -> None:
        own, now = stamp(self.clock.at), self.now()
        deadline = {"pending": lambda c: c.decide_by, "approved": lambda c: c.start_by}
        late = [c for c in self.cards if c.state in OPEN and own >= deadline[c.state](c) and now > deadline[c.state](c) and not c.forged]
        ended = self.do(expire_due(self.books[0]))
        forged = {card.action.approval for card in self.cards if card.forged}
        assert {row.approval for row in ended} - forged == {card.action.approval for card in late}, (
            "I6: what is late, and only that, expires"
        )
        for card in late:
            card.state, self.high = "expired", now

    # -- straight to each invariant's situation
    # -----------------------------------------------------------------------------

    @initialize(where=hosts, incident=incidents, process=processes)
    def it_begins_with_a_story(self, where: str, incident: str, process: int) -> None:
        self.do(getattr(self, self.begins)(where, incident, process))

    @rule(story=st.sampled_from(STORIES), where=hosts, incident=incidents, process=processes)
    def straight_to(self, story: str, where: str, incident: str, process: int) -> None:
        self.do(getattr(self, story)(where, incident, process))

    async def i2_once(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        card = await self.approved(where, incident)
        said = await asyncio.gather(*(self._try_claim(card, i) for i in range(4)))
        held = [claim for claim in said if claim is not None]
        assert len(held) == 1, f"I2: {len(held)} claims"
        self._claimed(card, held[0], self.now())
        self.seen("raced claims")
        await self.perform(card)
        assert self.desk.host.effects[card.action.digest] == 1
        assert await self.claim(card, process) is None
        for voter, delivery in list(card.clicks):
            await self.click(card, voter, delivery=delivery)
        self.seen("executed, then tried again")

    async def _try_claim(self, card: Card, i: int) -> Any:
        asked = {"policy": POLICY, "catalogue": CATALOGUE, "authorised": APPROVERS}
        try:
            return await self.books[0].claim(card.action.approval, card.action.digest, f"w{i}", **asked)
        except self.desk.refusals.Refused:
            return None

    async def i2_a_worker_dies(self, where: str, incident: str, process: int) -> None:
        for started in (True, False):
            await self.calm()
            card = await self.approved(where, incident)
            held = await self.claim(card)
            if started:
                await start_action(held, self.desk.host)
                self.ran = True
            if self.now(process) <= card.beat_until:  # a clock ahead by more than a heartbeat makes holders look dead
                assert await self.books[process].adopt(card.action.approval, "w9") is None, "I2: a living holder is left alone"
            await self.adopt_and_settle(card)
            assert card.state == ("done" if started else "failed")
            assert self.desk.host.effects[card.action.digest] == int(started)
            assert await self.claim(card) is None
            self.seen("died after the start" if started else "died before the start")

    async def i3_i4_who_approves(self, where: str, incident: str, process: int) -> None:
        for quorum in (1, 2):
            await self.calm()
            requesters = ("T1:ANN",) if quorum == 2 else ("T1:ANN", "T1:CID")
            card = await self.propose(where, incident, quorum=quorum, by=",".join(requesters))
            for voter in (*requesters, "T1:EVE", "T2:BOB"):
                await self.click(card, voter, process=process)
            await self.claim(card)
            await self.click(card, "T1:BOB")
            await self.click(card, "T1:BOB")
            await self.claim(card, gone=frozenset({"T1:BOB"}))
            await self.claim(card)
            if quorum == 2:
                await self.click(card, "T1:CID")
                await self.claim(card)
            assert card.state == "executing"
            await self.perform(card)
            self.seen("quorum story")

    async def i5_somebody_writes_into_redis(self, where: str, incident: str, process: int) -> None:
        for pick in FORGERIES:
            await self.calm()
            card = await self.propose(where, incident, quorum=2) if pick == "vote" else await self.approved(where, incident)
            if pick == "done again":
                await self.claim(card)
                await self.perform(card)
            await self._forge(card, self.desk.key("apr", card.action.approval), pick)
            card.forged = True
            assert await self.claim(card, process) is None
            self.seen(f"forged {pick}")

    async def _forge(self, card: Card, key: str, pick: str) -> None:
        votes, redis = self.desk.key("votes", card.action.approval), self.redis
        match pick:
            case "vote":
                await self.click(card, "T1:ANN")
                genuine = cast(bytes, await redis.hget(votes, "T1:ANN"))
                await redis.hset(votes, "T1:BOB", genuine.replace(b"T1:ANN", b"T1:BOB"))
                card.forged = True
                await self.click(card, "T1:CID")
            case "action":
                worse = replace(card.action, command=("rm", "-rf", "/"))
                await redis.hset(key, mapping={"action": worse.to_canonical_json(), "digest": worse.digest})
            case "start_by":
                self.go(301)
                await redis.hset(key, "start_by", FAR)
            case "votes gone":
                await redis.delete(votes)
            case _:
                await redis.hset(key, "state", "approved")

    async def i5_the_key_is_changed(self, where: str, incident: str, process: int) -> None:
        """The key is stolen and rotated, by a process that dies midway; forgeries with the old key are worthless."""
        await self.calm()
        here, there = [host for host in HOSTS if host != where][:2]
        waits, agreed, runs = await self.propose(here, "inc-1"), await self.approved(there, "inc-2"), await self.approved(where, "inc-3")
        await self.claim(runs)
        held, old = self.held[runs.action.approval], self.books
        self._another_key()
        assert await self._refused_by(self.books[process], agreed) == {"OldKey"}, "I5: what an earlier key signed is not started"
        await self._nothing_is_put_up(self.books[process], here)
        self.high = self.now()
        await retry_until_settled(lambda: self.books[0]._record_key_change("T1:BOB"))
        assert await self._refused_by(self.books[process], agreed) == {"OldKey"}, "I5: nor once it was"
        before = await self.desk.dump()
        for replica in old:
            assert await self._refused_by(replica, agreed) == {"TamperedRecord"}, "I5: a replica that was not restarted decides nothing"
        assert await self.desk.dump() == before
        await self.change_is_finished()
        assert {waits.state, agreed.state, runs.state} == {"superseded", "executing"}
        assert (await self.books[1].get_key_status()).running == (runs.action.approval,)
        self.held[runs.action.approval] = held
        await self.perform(runs)
        await self._made_up_with(self.keys[1], where, process)
        await self._stopped_by_whoever_was_not_restarted(old[0])
        fresh = await self.approved(there, "inc-2")
        assert await self.claim(fresh) is not None, "what is approved anew runs"
        await self.perform(fresh)
        self.seen("key changed")

    async def _nothing_is_put_up(self, book: Any, where: str) -> None:
        try:
            await book.propose(self.desk.action(where), self.desk.terms())
        except self.desk.refusals.KeyChanging:
            self.seen("nothing is put up while the key is being changed")
            return
        raise AssertionError("I5: something was put up while the key was being changed")

    def _another_key(self) -> None:
        self.keys.insert(0, f"key number {len(self.keys) + 1} of the ledger".encode())
        more: dict[str, Any] = {"key": self.keys[0], "older_keys": tuple(self.keys[1:]), "brakes": BRAKES}
        self.desk.ledger = self.desk.replica(**more)
        self.books = (self.desk.ledger, self.desk.replica(self.wrong, **more))

    async def change_is_finished(self) -> None:
        """Rotate again, which continues an interrupted rotation."""
        now = self.now()
        await self.books[0].rotate_key("T1:BOB")
        self.high = now
        for card in self.cards:
            if card.state in OPEN:
                card.state = "superseded"
        assert not (await self.books[0].get_key_status()).changing

    async def _refused_by(self, book: Any, card: Card) -> set[str]:
        """Return how a claim and a vote are refused."""
        said, digest, approval = set[str](), card.action.digest, card.action.approval
        asked = {"policy": POLICY, "catalogue": CATALOGUE, "authorised": APPROVERS}
        for attempt in (
            book.claim(approval, digest, "w1", **asked),
            book.vote(approval, digest, "T1:CID", "approve", f"late-{self.now()}"),
        ):
            try:
                await attempt
            except self.desk.refusals.Refused as error:
                said.add(type(error).__name__)
            else:
                said.add("granted")
        return said - {"NotOpen"}

    async def _made_up_with(self, key: bytes, where: str, process: int) -> None:
        """With an old key and write access to Redis, forge votes on a current request, and a whole request."""
        records = self.desk.refusals
        half = await self.propose(where, "inc-1", quorum=2)
        at = datetime.fromtimestamp(self.now() + 1, UTC).isoformat()
        vote = records.Vote(half.action.approval, half.action.digest, "T1:BOB", "approve", at, "made-up")
        await self.redis.hset(self.desk.key("votes", half.action.approval), "T1:BOB", Seal(key).sign_vote(vote))
        half.forged = True
        await self.click(half, "T1:ANN")
        for whole, stolen in ((False, Seal(key)), (True, Seal(key, (b"another, that signs nothing",)))):
            card = await self.propose(where, "inc-1")
            action, start_by = card.action, round((self.now() + 299) * 1000)
            votes = [records.Vote(action.approval, action.digest, who, "approve", at, f"made-up-{who}") for who in sorted(APPROVERS)]
            await self.redis.hset(self.desk.key("votes", action.approval), mapping={vote.voter: stolen.sign_vote(vote) for vote in votes})
            row: dict[str, Any] = {
                "state": "approved",
                "start_by": start_by,
                "approved": stolen.sign_approval(action.approval, action.digest, start_by),
            }
            if whole:
                record, until = self.desk.key("apr", action.approval), round(card.decide_by * 1000)
                kept = {name.decode(): value.decode() for name, value in (await cast(Any, self.redis).hgetall(record)).items()}
                row |= {"mac": stolen.sign_request(kept["action"], kept["request"], int(kept["proposed_at"]), until)}
            await cast(Any, self.redis).hset(self.desk.key("apr", action.approval), mapping=row)
            card.forged = True
            card.state, card.yes, card.start_by = "approved", set(APPROVERS), self.now() + 299
            assert await self.claim(card, process) is None
            self.seen("made up with an earlier key")

    async def _stopped_by_whoever_was_not_restarted(self, book: Any) -> None:
        """The kill switch works for old processes too and leaves the chain intact."""
        now = self.now()
        await book.stop("T1:BOB", "by an old process")
        self.high, self.stopped = now, True
        await self.change_is_finished()
        await self.switch(False)
        report = await self.books[0].verify_audit()
        assert report.good, f"I8: the chain must verify: {report}"

    async def i6_late(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        slow, early = await self.propose(where, incident), await self.approved(where, incident)
        await self._after(early.start_by)
        assert await self.claim(early, process) is None
        self.clock.go(seconds=60)
        await self._after(slow.decide_by)
        await self.click(slow, "T1:ANN", process=process)
        self.clock.go(seconds=60)
        assert slow.state == "pending"
        self.seen("late in spite of a clock that went back")

    async def _after(self, deadline: float) -> None:
        """Let the deadline pass, use the ledger, then set this machine's clock back by a minute."""
        self.go(max(0.0, deadline - self.now() + 1))
        await self.propose("gpu-5", "inc-3")
        self.clock.go(seconds=-60)

    async def i7_the_end_is_the_end(self, where: str, incident: str, process: int) -> None:
        for event in ("deny", "revoke", "supersede"):
            for approve in (False, event != "deny"):
                await self.calm()
                card = await self.approved(where, incident) if approve else await self.propose(where, incident)
                await self._end(card, event)
                for voter in ("T1:ANN", "T1:BOB"):
                    await self.click(card, voter)
                assert await self.claim(card, process) is None
            self.seen(f"{event}, then tried")

    async def _end(self, card: Card, event: str) -> None:
        if event == "deny":
            return await self.click(card, "T1:ANN", "deny")
        now = self.now()
        await self.books[0].end_action(card.action.approval, self.desk.states.Transition(event), "T1:BOB", "")
        card.state, self.high = f"{event}d", now
        return None

    async def i8_somebody_edits_the_audit_log(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        card = await self.approved(where, incident)
        await self.claim(card)
        await self.perform(card)
        log = self.desk.key("audit")
        rows = cast(list[bytes], await self.redis.lrange(log, 0, -1))
        for edited in edits(rows):
            await self._store(log, edited)
            assert not (await self.books[process].verify_audit()).good, "I8: an edited audit log verified"
        await self._store(log, rows)
        self.seen("edited audit logs")

    async def _store(self, log: str, rows: list[bytes]) -> None:
        await self.redis.delete(log)
        await self.redis.rpush(log, *rows)

    async def i9_the_kill_switch(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        running, card = await self.approved("gpu-1", incident), await self.approved("gpu-2", incident)
        await self.claim(running)
        await self.switch(True)
        assert await self.claim(card, process) is None
        assert running.action.approval in (await self.books[1].get_brake_status()).executing, "I9: what runs is reported"
        await self.perform(running)
        await self.switch(False)
        assert await self.claim(card) is not None

    async def i9_the_breaker_is_sticky(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        for target, other in zip(HOSTS[:3], INCIDENTS, strict=True):
            card = await self.approved(target, other)
            await self.claim(card)
            await self.perform(card)
        assert await self.claim(await self.approved(HOSTS[3], "inc-1")) is None
        self.go(5000)
        assert await self.claim(await self.approved(HOSTS[3], "inc-2")) is None, "I9: only a human resets a breaker"
        await self.reset_breaker()
        assert await self.claim(await self.approved(HOSTS[3], "inc-2")) is not None

    async def i10_another_version(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        card = await self.approved(where, incident)
        assert await self.claim(card, process, policy="policy-2") is None
        assert await self.claim(card) is None

    async def i11_a_precondition_changed(self, where: str, incident: str, process: int) -> None:
        host = self.desk.host
        for changed in (Host(idle=False), Host(boot_id=OTHER_BOOT)):
            await self.calm()
            card = await self.approved(where, incident)
            self.desk.host = changed
            await self.claim(card)
            await self.perform(card)
            assert (card.state, changed.effects.total()) == ("failed", 0), "I11: refused, and nothing happened"
            self.desk.host = host
            assert await self.claim(card, process) is None, "I11: and it is not tried again"
        self.seen("precondition changed")

    async def i12_looking_changes_nothing(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        await self.propose(where, incident, process)
        self.go(901)
        await self.approved(HOSTS[1], incident)
        await self.claim(await self.approved(HOSTS[2], incident), process)
        before, effects = await self.desk.dump(), self.desk.host.effects.copy()
        for book in self.books:
            await self.looked_at(book, incident)
        assert await self.desk.dump() == before, "I12: looking changed the store"
        assert self.desk.host.effects == effects
        self.seen("looked")

    async def looked_at(self, book: Any, incident: str) -> None:
        """Call every reading method of a ledger."""
        for asked in (book.get_brake_status, book.verify_audit, book.list_due, book.get_key_status, book.get_key_state, book.is_own_chain):
            await asked()
        await book.get_brake_usage(incident, "h100")
        assert [line async for line in book.export_audit()]
        for card in (card for card in self.cards if not card.forged):
            row = await book.get_record(card.action.approval)
            await book.explain_held_back(row)
            self.seen("looked at something late" if card.state == "pending" and self.now() > card.decide_by else "looked at something")
        if not any(card.forged for card in self.cards if card.action.incident == incident):
            await book.list_incident_records(incident)

    async def i15_a_click_is_delivered_again(self, where: str, incident: str, process: int) -> None:
        for quorum in (1, 2):
            await self.calm()
            first, second = await self.propose(where, incident, quorum=quorum), await self.propose("gpu-2", incident)
            await self.click(first, "T1:ANN")
            _, delivery = first.clicks[-1]
            before = await self.desk.dump()
            await self.click(first, "T1:ANN", delivery=delivery, process=process)
            await self.click(first, "T1:BOB", delivery=delivery)
            await self.click(second, "T1:BOB", delivery=delivery)
            await self.click(second, "T2:BOB")
            assert await self.desk.dump() == before, "I15: a replay or a foreign workspace changed the store"
        self.seen("replayed")

    async def i19_blast_radius(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        for target in HOSTS[:BLAST]:
            card = await self.approved(target, incident)
            await self.claim(card)
            await self.perform(card)
        assert await self.claim(await self.approved(HOSTS[2], incident), process) is None
        assert await self.claim(await self.approved(HOSTS[0], incident)) is not None, "a host it changed before is not one more"

    async def i19_at_once(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        cards = [await self.approved(target, other) for target, other in zip(HOSTS[:3], INCIDENTS, strict=True)]
        await self.claim(cards[0])
        await self.doubt(cards[0])
        await self.claim(cards[1])
        assert await self.claim(cards[2], process) is None, "I19: unknown counts as being changed"
        await self.perform(cards[1])
        assert await self.claim(cards[2]) is not None

    async def doubt(self, card: Card) -> None:
        now = self.now()
        row = await self.books[0].finish(self.held.pop(card.action.approval), "unknown")
        card.state, self.high = row.state, now
        self.seen("unknown")

    async def i21_one_host_one_action(self, where: str, incident: str, process: int) -> None:
        for unknown in (True, False):
            await self.calm()
            first, second = await self.approved(where, "inc-1"), await self.approved(where, "inc-2")
            await self.claim(first)
            if unknown:
                await self.doubt(first)
            assert await self.claim(second, process) is None, "I21: one host, one action"
            await (self.reconcile(first) if unknown else self.perform(first))
            assert await self.claim(second) is not None

    async def i21_a_reboot_covers_a_reset(self, where: str, incident: str, process: int) -> None:
        await self.calm()
        reset, reboot = await self.approved(where, "inc-1"), await self.approved(where, "inc-2", remedy="reboot")
        await self.claim(reboot, process)
        assert reset.state == "superseded"
        assert await self.claim(reset) is None
        await self.books[0].finish(self.held.pop(reboot.action.approval), "done")
        reboot.state = "done"
        assert await self.claim(reset) is None, "I21: and not after the reboot either"

    # -- always ---------------------------------------------------------------------------------------------------------

    @invariant()
    def i2_no_digest_runs_twice(self) -> None:
        assert all(card.claims <= 1 for card in self.cards), "I2"
        assert all(count <= 1 for count in self.desk.host.effects.values()), "I2"

    @invariant()
    def i2_what_ran_was_claimed(self) -> None:
        claimed = {card.action.digest for card in self.cards if card.claims}
        assert set(self.desk.host.effects) <= claimed, "I1 I2: nothing runs without a claim"

    async def _agrees_to_the_end(self) -> None:
        report = await self.books[1].verify_audit(head for _, head in self.desk.heads)
        assert report.good, f"I8: the chain must verify: {report}"
        for card in self.cards:
            if not card.forged:
                row = await self.books[1].get_record(card.action.approval)
                assert row.state == card.state, "the ledger and the model agree to the end"


def live(runs: settings, stories: Sequence[str] = STORIES) -> Counter[str]:
    """Run from each story, so that each occurs, and return the situations met."""
    counts: Counter[str] = Counter()
    for story in stories:
        run_state_machine_as_test(type(story, (Life,), {"counts": counts, "begins": story}), settings=runs)
    return counts


def edits(rows: list[bytes]) -> list[list[bytes]]:
    """Return an audit log altered, cut in the middle, reordered, and truncated."""
    altered = [*rows[:-1], rows[-1].replace(b'"by":"', b'"by":"x')]
    return [altered, [*rows[:1], *rows[2:]], [rows[1], rows[0], *rows[2:]], rows[:-1]]


def stamp(at: datetime) -> float:
    return at.timestamp()


# situations that must occur at least once; otherwise their invariant is unproven
SITUATIONS = (
    *(f"only {why}" for why in ("stranger", "own request", "replayed", "late vote", "voted before", "settled")),
    *(f"only {why}" for why in ("not approved", "another version", "no quorum", "late claim", "stopped", "breaker open", "target busy")),
    *(f"only {why}" for why in ("blast radius", "fleet limit", "breaker trips")),
    *("covered by a reboot", "stale holder fenced", "stale start refused by the host", "raced claims", "executed, then tried again"),
    *(
        "died after the start",
        "died before the start",
        "quorum story",
        "late in spite of a clock that went back",
        "edited audit logs",
    ),
    *(
        "precondition changed",
        "looked",
        "looked at something late",
        "replayed",
        "unknown",
        "deny, then tried",
        "revoke, then tried",
        "supersede, then tried",
    ),
    *(f"forged {pick}" for pick in FORGERIES),
    *("key changed", "made up with an earlier key", "nothing is put up while the key is being changed"),
)
