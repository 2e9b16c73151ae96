"""Approvals in Redis: propose, vote, claim, finish.

Each transition is one atomic script that appends to the audit chain first.

Python verifies signatures and counts votes; the script compares the same bytes, so nothing can change in between.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, cast

from tools.action import Action
from tools.ledger import audit, refusals
from tools.ledger.brakes import BREAKER_PREFIX, STOP_BRAKE, BrakesInForce
from tools.ledger.claim import Claim, issue_claim
from tools.ledger.journal import ClockChoice, JournalHead, KeyParts, build_key_parts, format_refusal, retry_until_settled
from tools.ledger.manual_brakes import LedgerBrakes, redact_note
from tools.ledger.record import (
    ActionRecord,
    ApprovalTerms,
    Outcome,
    Vote,
    check_terms,
    compute_digest,
    find_approvers,
    has_same_effect,
    is_digest,
    list_requesters,
    list_targets,
)
from tools.ledger.redis_replies import decode_text, decode_texts, translate_redis_errors
from tools.ledger.seal import to_milliseconds
from tools.ledger.states import OPEN_STATES, State, Transition, get_next_state

FinalState = Literal["done", "failed", "unknown"]
END_TRANSITIONS: Final = frozenset({Transition.EXPIRE, Transition.SUPERSEDE, Transition.REVOKE})
FINISH_TRANSITIONS: Final[Mapping[FinalState, Transition]] = {
    "done": Transition.DONE,
    "failed": Transition.FAIL,
    "unknown": Transition.DOUBT,
}


class Ledger(LedgerBrakes):
    """All state changes of an action. Reads and brakes are in the base classes."""

    async def propose(self, action: Action, terms: ApprovalTerms, *, single: bool = False) -> ActionRecord:
        """Propose an action; a known approval id returns the stored record unchanged.

        `single`: raise DuplicateAction if the same effect is open or running, also for concurrent proposals.
        """
        check_terms(action, terms)
        canonical, request = action.to_canonical_json(), terms.to_canonical_json()
        proposal = {"digest": action.digest, "remedy": action.remedy, "target": action.target, "quorum": terms.quorum}
        sets = {"sets": list(terms.sets)} if terms.sets else {}

        async def attempt() -> str:
            head = await self._read_head_or_stop()
            if single and (duplicate := await self._find_duplicate(action)):
                raise refusals.DuplicateAction(duplicate)
            decide_by = to_milliseconds(head.now + timedelta(seconds=terms.decide_seconds))
            mac = self._seal.sign_request(canonical, request, to_milliseconds(head.now), decide_by)
            line = _build_audit_line("propose", action, "rackmedic", head, approvers=sorted(terms.approvers), **proposal, **sets)
            arguments = (canonical, action.digest, request, mac, decide_by)
            return await self._journal.run_script("propose", head, build_key_parts(action, terms.group), line, *arguments)

        await retry_until_settled(attempt)
        existing = await self.get_record(action.approval)
        if existing.digest != action.digest:
            raise refusals.WrongDigest
        return existing

    async def _find_duplicate(self, action: Action) -> str:
        """Return an open, running or unknown action with the same effect; "" if this one is stored already."""
        approvals = set[str]()
        for target in list_targets(action):
            async with translate_redis_errors():
                approvals |= set(decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}open:{target}"))))
                holder = decode_text(await self._redis.get(f"{self._prefix}target:{target}"))
            if holder:
                approvals.add(holder)
        if action.approval in approvals:
            return ""
        for approval in sorted(approvals):
            if await self._has_same_effect(approval, action):
                return approval
        return ""

    async def _has_same_effect(self, approval: str, action: Action) -> bool:
        try:
            other = await self.get_record(approval)
        except refusals.TamperedRecord:
            return False  # nothing runs on a tampered record
        is_unfinished = other.state in {State.EXECUTING, State.UNKNOWN} or (other.state in OPEN_STATES and not other.old_key)
        return is_unfinished and has_same_effect(other.action, action)

    async def vote(
        self, approval: str, digest: str, voter: str, verdict: Literal["approve", "deny"], delivery: str, reason: str = ""
    ) -> ActionRecord:
        """Count one vote: `voter` is the verified click's `TEAM:USER`, `delivery` its unique id. Raises Refused if it does not count.

        A denial ends the action, even from a previous approver.
        """
        note = redact_note(reason)

        async def attempt() -> str:
            record = await self.get_record(approval)
            _check_vote(record, digest, voter, verdict)
            head = await self._read_head_or_stop()
            if not await self._is_confirmed(record):
                return "retry"
            vote = Vote(approval, digest, voter, verdict, head.at, delivery, note)
            becomes = _compute_state_after_vote(record, vote)
            start_by = to_milliseconds(head.now + timedelta(seconds=record.terms.start_seconds))
            line = _build_audit_line(f"vote_{verdict}", record.action, voter, head, digest=digest, becomes=becomes.value, reason=note)
            verified = (record.mac, record.raw_votes, to_milliseconds(record.decide_by))
            signed = (self._seal.sign_vote(vote), delivery, becomes.value, start_by, self._seal.sign_approval(approval, digest, start_by))
            return await self._journal.run_script("vote", head, _get_key_parts(record), line, *verified, voter, *signed, note)

        await retry_until_settled(attempt)
        return await self.get_record(approval)

    async def claim(self, approval: str, digest: str, worker: str, *, policy: str, catalogue: str, authorised: frozenset[str]) -> Claim:
        """Claim the action, once. `authorised` are the current approvers. Raises Refused if it may not run now."""
        await self._require_permission_to_act()
        claimed: list[ActionRecord] = []

        async def attempt() -> str:
            record = await self.get_record(approval)
            await self._require_claimable(record, digest, policy, catalogue, authorised)
            covered = await self.list_covered(record)
            head = await self._read_head_or_stop()
            if not await self._is_confirmed(record):
                return "retry"
            await self._check_brakes(record, head.brakes)
            assert record.start_by is not None
            line = _build_audit_line("claim", record.action, worker, head, digest=digest, target=record.action.target, supersedes=covered)
            verified = (record.mac, record.raw_votes, to_milliseconds(record.start_by))
            claim_arguments = (worker, self._brakes.beat_seconds * 1000, " ".join(covered), int(record.terms.changes))
            claimed[:] = [record]
            return await self._journal.run_script(
                "claim", head, _get_key_parts(record), line, *verified, *claim_arguments, *self._build_limits(record.terms)
            )

        word = await retry_until_settled(attempt)
        if word == "trip":
            await self._trip_breaker(claimed[0], worker)
        return _parse_claim(word, claimed[0].action, worker, may_start=True)

    async def _require_permission_to_act(self) -> None:
        distrust_reason = self._distrust if isinstance(self._distrust, str) else await self._distrust()
        if distrust_reason:
            raise refusals.NonDurableStore(f"{refusals.NonDurableStore.message} ({distrust_reason})")

    async def _require_claimable(self, record: ActionRecord, digest: str, policy: str, catalogue: str, authorised: frozenset[str]) -> None:
        """Refuse an action that may not be claimed. Under another policy or catalogue it is superseded first."""
        if record.old_key:
            raise refusals.SignedWithOldKey
        if record.digest != digest:
            raise refusals.WrongDigest
        if record.state is not State.APPROVED:
            raise refusals.NotOpen(f"{refusals.NotOpen.message} It is {record.state}.")
        if any(vote.verdict == "deny" for vote in record.votes):
            raise refusals.TamperedRecord
        if (record.action.policy, record.action.catalogue) != (policy, catalogue):
            await self.end_action(
                record.approval, Transition.SUPERSEDE, "rackmedic", "policy or catalogue changed since the card was shown"
            )
            raise refusals.VersionChanged
        if len(find_approvers(record.votes, record.terms, record.action, authorised)) < max(1, record.terms.quorum):
            raise refusals.NoQuorum

    async def _check_brakes(self, record: ActionRecord, brakes: BrakesInForce) -> None:
        """Check the brakes that the audit log confirms; the script checks the stored ones."""
        if STOP_BRAKE in brakes.pulled:
            raise refusals.KillSwitchOn(format_refusal("stopped", (await self.get_brake_status()).stopped))
        if f"{BREAKER_PREFIX}{record.terms.group}" in brakes.pulled:
            raise refusals.BreakerOpen
        for approval in sorted(brakes.claims - {record.approval}):
            with suppress(refusals.NotFound, refusals.TamperedRecord):  # the lock on its hosts still protects them
                other = await self.get_record(approval)
                if set(list_targets(other.action)) & set(list_targets(record.action)):
                    raise refusals.TargetBusy(format_refusal("busy", approval))

    def _build_limits(self, terms: ApprovalTerms) -> tuple[int, ...]:
        brakes, size = self._brakes, terms.group_size
        shares = (brakes.get_max_at_once(size), brakes.get_max_in_window(size))
        return (brakes.blast_hosts, brakes.blast_seconds * 1000, *shares, brakes.window_seconds * 1000)

    async def list_covered(self, record: ActionRecord) -> list[str]:
        """Return the open approvals that this action makes unnecessary: covered remedies on a subset of its targets."""
        own_targets, covered = set(list_targets(record.action)), set[str]()
        for target in sorted(own_targets) if record.terms.covers else ():
            async with translate_redis_errors():
                open_approvals = decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}open:{target}")))
            covered |= {
                name
                for name in open_approvals
                if name != record.approval and await self._is_covered(name, record.terms.covers, own_targets)
            }
        return sorted(covered)

    async def _is_covered(self, approval: str, covers: Collection[str], own_targets: set[str]) -> bool:
        try:
            other = await self.get_record(approval)
        except refusals.TamperedRecord:
            return False  # nothing runs on a tampered record, and it must not block a repair of the host
        return other.state in OPEN_STATES and other.action.remedy in covers and own_targets.issuperset(list_targets(other.action))

    async def _trip_breaker(self, record: ActionRecord, worker: str) -> None:
        reason = f"tripped by {record.approval}"
        await self._set_brake("breaker_trips", worker, f"breaker:{record.terms.group}", reason, record.terms.group)
        raise refusals.BreakerOpen

    async def send_heartbeat(self, claim: Claim) -> None:
        """Renew the claim. Raises LostClaim if another worker took it."""

        async def attempt() -> str:
            arguments = (claim.token, self._brakes.beat_seconds * 1000)
            return await self._journal.run_script("beat", await self._read_head_or_stop(), KeyParts(claim.action.approval), "", *arguments)

        await retry_until_settled(attempt)

    async def adopt(self, approval: str, worker: str) -> Claim | None:
        """Take over from a silent worker to find out what happened; None if it still sends heartbeats."""
        record = await self.get_record(approval)
        arguments = (worker, self._brakes.beat_seconds * 1000)
        word = await retry_until_settled(partial(self._run_script, "adopt", record, "adopt", worker, arguments))
        return None if word == "alive" else _parse_claim(word, record.action, worker, may_start=False)

    async def finish(
        self, claim: Claim, state: FinalState, *, exit_status: int | None = None, output: str = "", says: str = ""
    ) -> ActionRecord:
        """Record the outcome: `output` is a digest, `says` a sentence for the card. Raises LostClaim
        if another worker took the claim.

        `unknown` keeps the targets locked until a human has looked.
        """
        record = await self.get_record(claim.action.approval)
        becomes = get_next_state(State.EXECUTING, FINISH_TRANSITIONS[state])
        status = "" if exit_status is None else str(exit_status)
        output_digest = _get_output_digest(output)
        assert becomes is not None
        arguments = (claim.token, becomes.value, status, output_digest, redact_note(says))
        await retry_until_settled(
            partial(
                self._run_script, "finish", record, f"finish_{state}", claim.worker, arguments, exit_status=status, output=output_digest
            )
        )
        return await self.get_record(record.approval)

    async def reconcile(self, approval: str, human: str, ran: bool, note: str) -> ActionRecord:
        """Record a human's finding on an `unknown` action and release its targets."""
        record = await self.get_record(approval)
        becomes = get_next_state(State.UNKNOWN, Transition.RECONCILE_RAN if ran else Transition.RECONCILE_NOT)
        assert becomes is not None
        note_text = redact_note(note)
        arguments = (human, becomes.value, note_text)
        await retry_until_settled(partial(self._run_script, "reconcile", record, "reconcile", human, arguments, ran=ran, note=note_text))
        return await self.get_record(approval)

    async def end_action(self, approval: str, event: Transition, by: str, says: str, *, replaced_by: str = "") -> ActionRecord:
        """Expire (if late), supersede or revoke an action. Raises NotOpen if it has started or ended."""
        if event not in END_TRANSITIONS:
            raise ValueError(f"{event} does not end an action; {', '.join(sorted(END_TRANSITIONS))} do")
        note = redact_note(says)

        async def attempt() -> str:
            record = await self.get_record(approval)
            becomes = get_next_state(record.state, event)
            if becomes is None:
                raise refusals.NotOpen(f"{refusals.NotOpen.message} It is {record.state}.")
            due_at = record.get_due_time()
            until = to_milliseconds(due_at) if due_at and event is Transition.EXPIRE else ""
            arguments = (becomes.value, by, note, until, record.state.value, replaced_by)
            replacement = {"replaced_by": replaced_by} if replaced_by else {}
            return await self._run_script("end", record, event.value, by, arguments, says=note, **replacement)

        await retry_until_settled(attempt)
        return await self.get_record(approval)

    async def record_outcome(self, approval: str, outcome: Outcome, by: str = "rackmedic") -> ActionRecord:
        """Store the result of the proof or re-proof."""
        record = await self.get_record(approval)
        await retry_until_settled(partial(self._run_script, "outcome", record, "outcome", by, (outcome,), outcome=outcome))
        return await self.get_record(approval)

    async def record_continuation(self, incident: str, label: str, hosts: Sequence[str], person: str) -> None:
        """Record that a person continues a remediation that failed on some hosts, before proposing it on more."""

        async def attempt() -> str:
            head = await self._read_head_or_stop()
            line = audit.build_entry("wave_let_go", "", person, head.at, incident=incident, label=label, after=sorted(hosts))
            return await self._journal.run_script("note", head, KeyParts("-", incident=incident), line)

        await retry_until_settled(attempt)

    async def record_seen_in_service(self, incident: str, host: str, state: str) -> None:
        """Record that another party returned a node we drained, before it leaves our list."""

        async def attempt() -> str:
            head = await self._read_head_or_stop()
            line = audit.build_entry("held_node_in_service", "", "rackmedic", head.at, incident=incident, target=host, state=state[:60])
            return await self._journal.run_script("note", head, KeyParts("-", incident=incident), line)

        await retry_until_settled(attempt)

    async def rotate_key(self, person: str) -> tuple[str, ...]:
        """Switch to the present key and supersede what waits under an earlier one, to be approved again.

        Running actions end normally. Safe to repeat after a crash.
        """
        await retry_until_settled(partial(self._record_key_change, person))
        ended = list[str]()
        for approval in (await self.get_key_status()).waiting:
            with suppress(refusals.NotOpen):  # it started or ended meanwhile
                await self.end_action(approval, Transition.SUPERSEDE, person, "the ledger's key was changed; it is proposed again")
                ended.append(approval)
        return tuple(ended)

    async def _record_key_change(self, person: str) -> str:
        """Append the present key's first entry, which signs the chain before it. No earlier key signs after it."""
        head = await self._journal.read_head(after_older=True)
        newest = await audit.find_newest_signer(self._redis, self._prefix, self._seal)
        if newest in (None, self._seal.current):
            return "ok"
        line = audit.build_entry("key_changed", "", person, head.at, key=self._seal.current, before=newest)
        return await self._journal.run_script("note", head, KeyParts("-"), line)

    async def rewind_clock(self, person: str) -> tuple[str, ...]:
        """Reset the ledger's clock to ours after a machine's clock ran ahead.

        Supersedes and returns waiting actions, whose deadlines are wrong.
        """
        async with translate_redis_errors():
            waiting = decode_texts(await self._redis.zrange(f"{self._prefix}due", 0, -1))

        async def attempt() -> str:
            head = await self._read_head_or_stop(ClockChoice.OURS)
            return await self._journal.run_script("rewind", head, KeyParts("-"), audit.build_entry("clock_rewound", "", person, head.at))

        await retry_until_settled(attempt)
        ended = list[str]()
        for approval in waiting:
            with suppress(refusals.NotOpen, refusals.TamperedRecord):  # it started meanwhile, or can never run
                if (await self.get_record(approval)).state in OPEN_STATES:
                    await self.end_action(approval, Transition.SUPERSEDE, person, "the ledger's clock was wrong and has been set again")
                    ended.append(approval)
        return tuple(ended)

    async def _is_confirmed(self, record: ActionRecord) -> bool:
        """Return whether the audit log agrees; False if the record moved meanwhile.

        Raises TamperedRecord if an older record replaced the newest: its signatures are still valid.
        """
        if await self._logged.confirms_state(record):
            return True
        signature = (await self._read_head_or_stop()).signature
        current_record = await self.get_record(record.approval)
        if not await self._logged.confirms_state(current_record) and (await self._read_head_or_stop()).signature == signature:
            raise refusals.TamperedRecord(
                f"{refusals.TamperedRecord.message} ({record.approval} is {current_record.state} there, and the audit log says otherwise)"
            )
        return False

    async def _run_script(self, script: str, record: ActionRecord, event: str, by: str, arguments: tuple[Any, ...], **more: Any) -> str:
        head = await self._read_head_or_stop()
        return await self._journal.run_script(
            script, head, _get_key_parts(record), _build_audit_line(event, record.action, by, head, **more), *arguments
        )


def _check_vote(record: ActionRecord, digest: str, voter: str, verdict: str) -> None:
    if record.old_key and verdict == "approve":
        raise refusals.SignedWithOldKey
    if record.digest != digest:
        raise refusals.WrongDigest
    if verdict == "approve" and voter in list_requesters(record.action):
        raise refusals.OwnRequest
    if voter not in record.terms.approvers:
        raise refusals.NotAnApprover


def _compute_state_after_vote(record: ActionRecord, vote: Vote) -> State:
    """Return the state after this vote. Each voter counts once."""
    if vote.verdict == "deny":
        return State.DENIED
    voters = find_approvers([*record.votes, vote], record.terms, record.action)
    return State.APPROVED if record.terms.quorum >= 1 and len(voters) >= record.terms.quorum else State.PENDING


def _parse_claim(word: str, action: Action, worker: str, *, may_start: bool) -> Claim:
    """Parse `ok LENGTH TOKEN`."""
    if not word.startswith("ok "):
        raise refusals.Refused(f"the ledger answered {word!r}")
    return issue_claim(action, int(word.split()[2]), worker, may_start=may_start)


def _get_output_digest(output: str) -> str:
    """Return the output's digest. Anything else is hashed, so that no output enters a record or the audit log."""
    return output if not output or is_digest(output) else compute_digest(output)


def _get_key_parts(record: ActionRecord) -> KeyParts:
    """Return the parts for a record's keys."""
    return build_key_parts(record.action, record.terms.group)


def _build_audit_line(event: str, action: Action, by: str, head: JournalHead, **more: Any) -> str:
    """Return an audit line about an action."""
    return audit.build_entry(event, action.approval, by, head.at, incident=action.incident, **more)
