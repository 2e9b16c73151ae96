"""Approvals in Redis: propose, vote, claim, finish. Each transition is one atomic script that first appends to the audit chain.

Python verifies every signature and counts the votes; the script then compares the very bytes that were verified, so nothing can
change between looking and setting.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, cast

from tools.action import Action
from tools.ledger import audit, record
from tools.ledger.book import Book, kept_words, line_of, parts
from tools.ledger.brakes import BREAKER, STOP, BrakesInForce
from tools.ledger.claim import Claim, issue
from tools.ledger.journal import KeyParts, in_words, insist, key_parts
from tools.ledger.reach import text_of, texts_of, within_reach
from tools.ledger.record import Record, Refused, Terms, Vote, approving, check_terms, requesters_of, same_effect, targets_of
from tools.ledger.seal import milliseconds
from tools.ledger.states import OPEN, State, Transition, after

Finished = Literal["done", "failed", "unknown"]
ENDINGS: Final = frozenset({Transition.EXPIRE, Transition.SUPERSEDE, Transition.REVOKE})
FINISHES: Final[Mapping[Finished, Transition]] = {"done": Transition.DONE, "failed": Transition.FAIL, "unknown": Transition.DOUBT}


class Ledger(Book):
    """Every change of an action's state. Reading, and the brakes that a human pulls, are the Book's."""

    # -- asking -----------------------------------------------------------------------------------------------------

    async def propose(self, action: Action, terms: Terms, *, single: bool = False) -> Record:
        """Put an action up for decision. Proposing the same approval id again returns what is there, unchanged.

        `single`: Twin where the same, of whichever incident, is open or runs. Two at once make one, for each builds on the other's entry.
        """
        check_terms(action, terms)
        canonical, request = action.canonical(), terms.canonical()
        about = {"digest": action.digest, "remedy": action.remedy, "target": action.target, "quorum": terms.quorum}
        sets = {"sets": list(terms.sets)} if terms.sets else {}

        async def attempt() -> str:
            look = await self._look()
            if single and (twin := await self._twin(action)):
                raise record.Twin(twin)
            decide_by = milliseconds(look.now + timedelta(seconds=terms.decide_seconds))
            mac = self._seal.request(canonical, request, milliseconds(look.now), decide_by)
            line = line_of("propose", action, "rackmedic", look, approvers=sorted(terms.approvers), **about, **sets)
            rest = (canonical, action.digest, request, mac, decide_by)
            return await self._journal.run("propose", look, key_parts(action, terms.group), line, *rest)

        await insist(attempt)
        found = await self.record(action.approval)
        if found.digest != action.digest:
            raise record.WrongDigest(record.WrongDigest.__doc__)
        return found

    async def _twin(self, action: Action) -> str:
        """An action that is open, runs or is in doubt and would do the same; none once this one is there itself."""
        names = set[str]()
        for target in targets_of(action):
            async with within_reach():
                names |= set(texts_of(await cast(Any, self._redis.smembers(f"{self._prefix}open:{target}"))))
                holder = text_of(await self._redis.get(f"{self._prefix}target:{target}"))
            names |= {holder} if holder else set()
        if action.approval in names:
            return ""
        return next(iter([name for name in sorted(names) if await self._does_the_same(name, action)]), "")

    async def _does_the_same(self, approval: str, action: Action) -> bool:
        try:
            other = await self.record(approval)
        except record.Tampered:
            return False  # nothing will ever run on it
        living = other.state in {State.EXECUTING, State.UNKNOWN} or (other.state in OPEN and not other.old_key)
        return living and same_effect(other.action, action)

    async def vote(
        self, approval: str, digest: str, voter: str, verdict: Literal["approve", "deny"], delivery: str, reason: str = ""
    ) -> Record:
        """Count one person's word. `voter` is `TEAM:USER` of the verified click, `delivery` its unique id. Raises a Refused.

        A denial ends it, also from somebody who approved before.
        """
        said = kept_words(reason)

        async def attempt() -> str:
            seen = await self.record(approval)
            _may_vote(seen, digest, voter, verdict)
            look = await self._look()
            if not await self._confirm(seen):
                return "retry"
            vote = Vote(approval, digest, voter, verdict, look.at, delivery, said)
            becomes = _becomes(seen, vote)
            start_by = milliseconds(look.now + timedelta(seconds=seen.terms.start_seconds))
            line = line_of(f"vote_{verdict}", seen.action, voter, look, digest=digest, becomes=becomes.value, reason=said)
            verified = (seen.mac, seen.raw_votes, milliseconds(seen.decide_by))
            signed = (self._seal.vote(vote), delivery, becomes.value, start_by, self._seal.approved(approval, digest, start_by))
            return await self._journal.run("vote", look, parts(seen), line, *verified, voter, *signed, said)

        await insist(attempt)
        return await self.record(approval)

    # -- acting -----------------------------------------------------------------------------------------------------

    async def claim(self, approval: str, digest: str, worker: str, *, policy: str, catalogue: str, authorised: frozenset[str]) -> Claim:
        """The right to run the action, once. `authorised` are those who may approve it as of now. Raises a Refused."""
        await self._may_act()
        claimed: list[Record] = []

        async def attempt() -> str:
            seen = await self.record(approval)
            await self._may_claim(seen, digest, policy, catalogue, authorised)
            covered = await self.covered(seen)
            look = await self._look()
            if not await self._confirm(seen):
                return "retry"
            await self._may_start(seen, look.brakes)
            assert seen.start_by is not None
            line = line_of("claim", seen.action, worker, look, digest=digest, target=seen.action.target, supersedes=covered)
            verified = (seen.mac, seen.raw_votes, milliseconds(seen.start_by))
            asked = (worker, self._brakes.beat_seconds * 1000, " ".join(covered), int(seen.terms.changes))
            claimed[:] = [seen]
            return await self._journal.run("claim", look, parts(seen), line, *verified, *asked, *self._limits(seen.terms))

        word = await insist(attempt)
        if word == "trip":
            await self._trip(claimed[0], worker)
        return _issued(word, claimed[0].action, worker, may_start=True)

    async def _may_act(self) -> None:
        why = self._distrust if isinstance(self._distrust, str) else await self._distrust()
        if why:
            raise record.Forgetful(f"{record.Forgetful.__doc__} ({why})")

    async def _may_claim(self, seen: Record, digest: str, policy: str, catalogue: str, authorised: frozenset[str]) -> None:
        if seen.old_key:
            raise record.OldKey(record.OldKey.__doc__)
        if seen.digest != digest:
            raise record.WrongDigest(record.WrongDigest.__doc__)
        if seen.state is not State.APPROVED:
            raise record.NotOpen(f"{record.NotOpen.__doc__} It is {seen.state}.")
        if any(vote.verdict == "deny" for vote in seen.votes):
            raise record.Tampered(record.Tampered.__doc__)
        if (seen.action.policy, seen.action.catalogue) != (policy, catalogue):
            await self.end(seen.approval, Transition.SUPERSEDE, "rackmedic", "policy or catalogue changed since the card was shown")
            raise record.VersionChanged(record.VersionChanged.__doc__)
        if len(approving(seen.votes, seen.terms, seen.action, authorised)) < max(1, seen.terms.quorum):
            raise record.NoQuorum(record.NoQuorum.__doc__)

    async def _may_start(self, seen: Record, brakes: BrakesInForce) -> None:
        """By the brakes that the audit log confirms, whatever lies in their keys by now; the script asks those again."""
        if STOP in brakes.pulled:
            raise record.Stopped(in_words("stopped", (await self.status()).stopped))
        if f"{BREAKER}{seen.terms.group}" in brakes.pulled:
            raise record.BreakerOpen(record.BreakerOpen.__doc__)
        for approval in sorted(brakes.held - {seen.approval}):
            with suppress(record.NotFound, record.Tampered):  # the lock on its hosts is what is left
                other = await self.record(approval)
                if set(targets_of(other.action)) & set(targets_of(seen.action)):
                    raise record.TargetBusy(in_words("busy", approval))

    def _limits(self, terms: Terms) -> tuple[int, ...]:
        brakes, size = self._brakes, terms.group_size
        shares = (brakes.at_once_of(size), brakes.window_of(size))
        return (brakes.blast_hosts, brakes.blast_seconds * 1000, *shares, brakes.window_seconds * 1000)

    async def covered(self, seen: Record) -> list[str]:
        """Open approvals that this action makes needless: a lighter remedy on targets that are all ours."""
        ours, found = set(targets_of(seen.action)), set[str]()
        for target in sorted(ours) if seen.terms.covers else ():
            async with within_reach():
                others = texts_of(await cast(Any, self._redis.smembers(f"{self._prefix}open:{target}")))
            found |= {name for name in others if name != seen.approval and await self._is_covered(name, seen.terms.covers, ours)}
        return sorted(found)

    async def _is_covered(self, approval: str, covers: Collection[str], ours: set[str]) -> bool:
        try:
            other = await self.record(approval)
        except record.Tampered:
            return False  # nothing will ever run on it, and it must not keep the host from being mended
        return other.state in OPEN and other.action.remedy in covers and ours.issuperset(targets_of(other.action))

    async def _trip(self, seen: Record, worker: str) -> None:
        why = f"tripped by {seen.approval}"
        await self._switch("breaker_trips", worker, f"breaker:{seen.terms.group}", why, seen.terms.group)
        raise record.BreakerOpen(record.BreakerOpen.__doc__)

    async def beat(self, claim: Claim) -> None:
        """Say that the holder lives. LostClaim when it is no longer the holder."""

        async def attempt() -> str:
            rest = (claim.token, self._brakes.beat_seconds * 1000)
            return await self._journal.run("beat", await self._look(), KeyParts(claim.action.approval), "", *rest)

        await insist(attempt)

    async def adopt(self, approval: str, worker: str) -> Claim | None:
        """Take over from a worker that stopped beating, to find out what happened; None while it still beats."""
        seen = await self.record(approval)
        rest = (worker, self._brakes.beat_seconds * 1000)
        word = await insist(partial(self._write, "adopt", seen, "adopt", worker, rest))
        return None if word == "alive" else _issued(word, seen.action, worker, may_start=False)

    async def finish(self, held: Claim, state: Finished, *, exit_status: int | None = None, output: str = "", says: str = "") -> Record:
        """Write down how it ended. `output` is the digest of the stored output; `says` a sentence for the card.

        `unknown` keeps the target locked until a human looked. LostClaim when somebody else holds it.
        """
        seen = await self.record(held.action.approval)
        becomes, status, kept = after(State.EXECUTING, FINISHES[state]), "" if exit_status is None else str(exit_status), _digest(output)
        assert becomes is not None
        rest = (held.token, becomes.value, status, kept, kept_words(says))
        await insist(partial(self._write, "finish", seen, f"finish_{state}", held.worker, rest, exit_status=status, output=kept))
        return await self.record(seen.approval)

    async def reconcile(self, approval: str, human: str, ran: bool, note: str) -> Record:
        """A human looked at the host and says what happened to an `unknown` action. Audited; releases the target."""
        seen = await self.record(approval)
        becomes = after(State.UNKNOWN, Transition.RECONCILE_RAN if ran else Transition.RECONCILE_NOT)
        assert becomes is not None
        rest, said = (human, becomes.value, kept_words(note)), kept_words(note)
        await insist(partial(self._write, "reconcile", seen, "reconcile", human, rest, ran=ran, note=said))
        return await self.record(approval)

    async def end(self, approval: str, event: Transition, by: str, says: str, *, replaced_by: str = "") -> Record:
        """Expire (once it is late), supersede or revoke what has not begun. NotOpen when it has begun or ended.

        `replaced_by` is the action that stands in its place from now on.
        """
        if event not in ENDINGS:
            raise ValueError(f"{event} does not end an action; {', '.join(sorted(ENDINGS))} do")
        said = kept_words(says)

        async def attempt() -> str:
            seen = await self.record(approval)
            becomes = after(seen.state, event)
            if becomes is None:
                raise record.NotOpen(f"{record.NotOpen.__doc__} It is {seen.state}.")
            due = seen.due()
            until = milliseconds(due) if due and event is Transition.EXPIRE else ""
            rest = (becomes.value, by, said, until, seen.state.value, replaced_by)
            return await self._write("end", seen, event.value, by, rest, says=said, **({"replaced_by": replaced_by} if replaced_by else {}))

        await insist(attempt)
        return await self.record(approval)

    async def judge(self, approval: str, outcome: record.Outcome, by: str = "rackmedic") -> Record:
        """Keep what the proof (or the later re-proof) found."""
        seen = await self.record(approval)
        await insist(partial(self._write, "outcome", seen, "outcome", by, (outcome,), outcome=outcome))
        return await self.record(approval)

    # -- the key ----------------------------------------------------------------------------------------------------

    async def rotate(self, who: str) -> tuple[str, ...]:
        """From now on the present key signs, and no other. What waits under an earlier key is superseded, to be proposed anew: what people
        approved must be approved again. What runs ends as it would have. Whoever dies on the way is followed by whoever calls this again."""
        await insist(partial(self._takes_over, who))
        ended = []
        for approval in (await self.keys()).waiting:
            with suppress(record.NotOpen):  # somebody was quicker
                ended.append(
                    (await self.end(approval, Transition.SUPERSEDE, who, "the ledger's key was changed; it is proposed anew")).approval
                )
        return tuple(ended)

    async def _takes_over(self, who: str) -> str:
        """The first entry of the present key: it signs the whole chain before it, and no earlier key signs anything after it."""
        look = await self._journal.look(after_older=True)
        newest = await audit.newest_signer(self._redis, self._prefix, self._seal)
        if newest in (None, self._seal.current):
            return "ok"
        line = audit.entry("key_changed", "", who, look.at, key=self._seal.current, before=newest)
        return await self._journal.run("note", look, KeyParts("-"), line)

    # -- brakes -----------------------------------------------------------------------------------------------------

    async def rewind_clock(self, who: str) -> tuple[str, ...]:
        """Take the ledger's clock back to ours, after a machine whose clock ran ahead was mended.

        What waits for a decision is superseded, as its deadlines came from the wrong time: which, to be proposed anew.
        """
        async with within_reach():
            waiting = texts_of(await self._redis.zrange(f"{self._prefix}due", 0, -1))

        async def attempt() -> str:
            look = await self._look("ours")
            return await self._journal.run("rewind", look, KeyParts("-"), audit.entry("clock_rewound", "", who, look.at))

        await insist(attempt)
        ended = list[str]()
        for approval in waiting:
            with suppress(record.NotOpen, record.Tampered):  # it began meanwhile, or it can never run
                if (await self.record(approval)).state in OPEN:
                    await self.end(approval, Transition.SUPERSEDE, who, "the ledger's clock was wrong and has been set anew")
                    ended.append(approval)
        return tuple(ended)


def _may_vote(seen: Record, digest: str, voter: str, verdict: str) -> None:
    if seen.old_key and verdict == "approve":
        raise record.OldKey(record.OldKey.__doc__)
    if seen.digest != digest:
        raise record.WrongDigest(record.WrongDigest.__doc__)
    if verdict == "approve" and voter in requesters_of(seen.action):
        raise record.OwnRequest(record.OwnRequest.__doc__)
    if voter not in seen.terms.approvers:
        raise record.NotAnApprover(record.NotAnApprover.__doc__)


def _becomes(seen: Record, vote: Vote) -> State:
    """The state after this vote, by the table. Distinct voters count, so the same person twice is one."""
    if vote.verdict == "deny":
        return State.DENIED
    voters = approving([*seen.votes, vote], seen.terms, seen.action)
    return State.APPROVED if seen.terms.quorum >= 1 and len(voters) >= seen.terms.quorum else State.PENDING


def _issued(word: str, action: Action, worker: str, *, may_start: bool) -> Claim:
    """The claim that an `ok LENGTH TOKEN` grants."""
    if not word.startswith("ok "):
        raise Refused(f"the ledger answered {word!r}")
    return issue(action, int(word.split()[2]), worker, may_start=may_start)


def _digest(output: str) -> str:
    """The digest of a stored output; anything else is hashed, so that an output never gets into a record or the audit log."""
    return output if not output or record.is_digest(output) else record.digest_of(output)
