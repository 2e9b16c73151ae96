"""Safety bugs in the approval ledger. Its state machine, or the story beside a mutant, must catch each."""

import asyncio
import contextlib
import inspect
import io
from collections.abc import Callable, Coroutine
from typing import Any

from fakeredis import FakeAsyncRedis, FakeServer
from hypothesis import HealthCheck, Phase, Verbosity, settings

from tests.properties.ledger_machine import STORIES, live
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged
from tests.support.fakes_ledger import Desk
from tests.tools import test_ledger as stories
from tests.tools import test_ledger_keys as key_stories
from tests.tools import test_ledger_older_rows as older_rows
from tools.execution.runner import start_action
from tools.ledger import scripts
from tools.ledger.audit import verify_chain
from tools.ledger.journal import Journal, _compute_brakes_digest
from tools.ledger.ledger import Ledger, _check_vote, _compute_state_after_vote
from tools.ledger.logged_states import LoggedStates
from tools.ledger.manual_brakes import redact_note
from tools.ledger.reader import LedgerReader
from tools.ledger.record import find_approvers, list_requesters
from tools.ledger.seal import Seal, _parse_record_fields, parse_votes

MACHINE_SETTINGS = settings(
    max_examples=2,
    stateful_step_count=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
)

# Skip the audit log's confirmation of an action, which also covers the other guards of its state: their bugs show only
# without it.
UNCONFIRMED = Edit(Ledger._is_confirmed, "await self._logged.confirms_state(record)", "True")
# Skip the brakes check, to expose the guards of brakes and locks.
BRAKES_UNASKED = Edit(Ledger.claim, "await self._check_brakes(record, head.brakes)")

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a claim needs no approved state",
        "I2",
        (
            Edit(scripts.CLAIM, "if state() ~= 'approved' then return 'not_open '..state() end"),
            Edit(scripts.CLAIM, "or redis.call('HEXISTS', apr, 'claimed_at') == 1"),
            Edit(Ledger._require_claimable, "record.state is not State.APPROVED", "False"),
            UNCONFIRMED,
        ),
    ),
    Mutant("who adopts may start it again", "I2", (Edit(Ledger.adopt, "may_start=False", "may_start=True"),)),
    Mutant(
        "a living holder can be adopted",
        "I2",
        (Edit(scripts.ADOPT, "if now <= tonumber(redis.call('HGET', apr, 'beat_until') or '0') then return 'alive' end"),),
    ),
    Mutant(
        "finishing is not fenced",
        "I2",
        (Edit(scripts.FINISH, "if state() ~= 'executing' or redis.call('HGET', apr, 'token') ~= token then return 'lost' end"),),
    ),
    Mutant(
        "an adopted claim reaches the host as a start",
        "I2",
        (Edit(start_action, "not claim.may_start", "False"),),
        stories.test_whoever_adopts_a_silent_holders_action_may_only_find_out,
    ),
    Mutant(
        "a Redis that went back in time goes unnoticed",
        "I2",
        (Edit(Journal.read_head, "length and decode_text(last_seen_entry).partition(' ')[0] != seen_signature", "False"),),
        stories.test_a_redis_that_went_back_in_time_stops_everything_until_a_human_looked,
    ),
    Mutant(
        "a script that was sent twice counts twice",
        "I2",
        (Edit(scripts.PRELUDE, "if again then return again end"),),
        stories.test_a_script_whose_answer_was_lost_and_that_is_sent_again_counts_once,
    ),
    Mutant(
        "an action set back by hand runs again",
        "I2",
        (Edit(scripts.CLAIM, "or redis.call('HEXISTS', apr, 'claimed_at') == 1"), UNCONFIRMED),
    ),
    Mutant(
        "an approval put back from before its end is believed",
        "I5 I7",
        (UNCONFIRMED,),
        older_rows.test_an_approval_put_back_is_not_claimed,
    ),
    Mutant("a card put back from before its end takes votes", "I5 I7", (UNCONFIRMED,), older_rows.test_a_card_put_back_takes_no_vote),
    Mutant(
        "votes from before a card count for it",
        "I3",
        (Edit(_parse_record_fields, "datetime.fromisoformat(vote.at) < proposed - timedelta(milliseconds=1)", "False"),),
        older_rows.test_votes_of_before_count_for_no_card_put_up_anew,
    ),
    Mutant(
        "an entry taken out of the log goes unnoticed",
        "I8",
        (Edit(LoggedStates._check_signature, "audit.find_signer(self._seal, before, line, head)", "True"),),
        older_rows.test_an_entry_taken_out_of_the_log_confirms_nothing,
    ),
    Mutant(
        "a kill switch released in Redis is off",
        "I9",
        (Edit(Journal.read_head, "unread or signed_digest not in ('', brakes.digest)", "False"),),
        older_rows.test_a_kill_switch_released_in_redis_is_pulled_again,
    ),
    Mutant(
        "brakes that somebody else changed are signed as ours",
        "I9",
        (Edit(_compute_brakes_digest, "head.altered and (not resumes)", "False"),),
        older_rows.test_a_breaker_closed_in_redis_stops_everything,
    ),
    Mutant(
        "a lock removed in Redis is no lock",
        "I21",
        (Edit(Ledger._check_brakes, "brakes.claims - {record.approval}", "()"),),
        older_rows.test_a_lock_removed_in_redis_still_holds,
    ),
    Mutant(
        "the quorum counts votes, not voters",
        "I3",
        (
            Edit(scripts.VOTE, "if redis.call('HEXISTS', votes, voter) == 1 and becomes ~= 'denied' then return 'already' end"),
            Edit(_compute_state_after_vote, "len(voters)", "len(record.votes) + 1"),
        ),
    ),
    Mutant(
        "strangers may vote",
        "I3",
        (
            Edit(_check_vote, "voter not in record.terms.approvers", "False"),
            Edit(find_approvers, "vote.voter in terms.approvers", "True"),
        ),
    ),
    Mutant(
        "who lost the right to approve still counts",
        "I3",
        (Edit(find_approvers, "voters if authorised is None else voters & authorised", "voters"),),
    ),
    Mutant(
        "the requester may approve",
        "I4",
        (
            Edit(_check_vote, "verdict == 'approve' and voter in list_requesters(record.action)", "False"),
            Edit(find_approvers, "voters -= list_requesters(action)"),
        ),
    ),
    Mutant(
        "only a sole requester is refused",
        "I4",
        (Edit(list_requesters, "action.requested_by.split(',')", "[action.requested_by]"),),
    ),
    Mutant(
        "no digest is compared",
        "I5",
        (Edit(_check_vote, "record.digest != digest", "False"),),
        stories.test_the_digest_of_an_older_card_approves_nothing,
    ),
    Mutant(
        "requests are not signed",
        "I5",
        (
            Edit(
                _parse_record_fields,
                "seal.verify(fields['mac'], 'request', fields['action'], fields['request'], fields['proposed_at'], fields['decide_by'])",
                "seal.current",
            ),
        ),
        stories.test_a_quorum_lowered_by_hand_is_noticed,
    ),
    Mutant(
        "the sets that decide are not audited",
        "I8",
        (Edit(Ledger.propose, "{'sets': list(terms.sets)} if terms.sets else {}", "{}"),),
        stories.test_the_audit_log_says_by_which_sets,
    ),
    Mutant("votes are not signed", "I3 I5", (Edit(parse_votes, "seal.verify(mac, 'vote', text)", "seal.current"),)),
    Mutant(
        "the start clock is not signed",
        "I5 I6",
        (
            Edit(
                _parse_record_fields,
                "signers.add(seal.verify(fields.get('approved', ''), 'approved', approval, action.digest, fields.get('start_by', '')))",
            ),
        ),
    ),
    Mutant("what an earlier key signed starts", "I5", (Edit(Ledger._require_claimable, "record.old_key", "False"),)),
    Mutant("what an earlier key signed can be approved", "I5", (Edit(_check_vote, "record.old_key and verdict == 'approve'", "False"),)),
    Mutant("votes of an earlier key count", "I5", (Edit(_parse_record_fields, "signers |= vote_signers"),)),
    Mutant("a change of the key keeps what is open", "I5", (Edit(Ledger.rotate_key, "(await self.get_key_status()).waiting", "()"),)),
    Mutant(
        "things go on while the key is being changed",
        "I5",
        (Edit(Journal._get_newest_entry_time, "key != self._seal.current and (not after_older)", "False"),),
    ),
    Mutant(
        "what was signed before the first change signs for every key",
        "I5",
        (
            Edit(
                Seal.find_signer,
                "return candidate",
                "return self.current",
            ),
        ),
    ),
    Mutant(
        "an earlier key may write on the audit log",
        "I8",
        (Edit(verify_chain, "age_by_key[key_id] > youngest and parse_line(line).get('event') != STOP_EVENT", "False"),),
        key_stories.test_what_an_earlier_key_signs_after_a_later_one_breaks_the_chain,
    ),
    Mutant(
        "a vote for one action counts for another",
        "I5",
        (
            Edit(find_approvers, "vote.digest == action.digest", "True"),
            Edit(find_approvers, "vote.approval == action.approval", "True"),
        ),
        stories.test_a_vote_for_another_action_is_not_a_vote_for_this_one,
    ),
    Mutant("there is no start clock", "I6", (Edit(scripts.CLAIM, "if now > start_by then return 'late' end"),)),
    Mutant("there is no decide clock", "I6", (Edit(scripts.VOTE, "if now > decide_by then return 'late' end"),)),
    Mutant(
        "the clock may go back",
        "I6",
        (
            Edit(Journal.read_head, "max(own_time, ledger_time)", "own_time"),
            Edit(scripts.PRELUDE, "local function behind() return now < stored('clock') end", "local function behind() return false end"),
        ),
    ),
    Mutant(
        "setting the stored clock back gives time back",
        "I6",
        (
            Edit(
                Journal.read_head,
                "max(parse_ledger_clock(decode_text(stored_clock)), self._get_newest_entry_time(decode_text(head), decode_texts(newest), after_older))",
                "parse_ledger_clock(decode_text(stored_clock))",
            ),
        ),
        stories.test_a_clock_that_was_set_to_zero_gives_a_slow_replica_no_time_back,
    ),
    Mutant(
        "actions expire before their time",
        "I6",
        (Edit(scripts.END, "if until_ms and now <= until_ms then return 'early' end"),),
        stories.test_nothing_expires_before_its_time,
    ),
    Mutant(
        "a denial can be voted away",
        "I7",
        (Edit(scripts.VOTE, "if state() ~= 'pending' then return 'not_open '..state() end"), UNCONFIRMED),
    ),
    Mutant("a revoked action stays approved", "I7", (Edit(scripts.END, "'state', becomes, 'ended_by', by", "'ended_by', by"), UNCONFIRMED)),
    Mutant(
        "a denial undone by hand is forgotten",
        "I7",
        (Edit(Ledger._require_claimable, "any((vote.verdict == 'deny' for vote in record.votes))", "False"), UNCONFIRMED),
        stories.test_a_denial_undone_by_hand_does_not_let_it_run,
    ),
    Mutant(
        "the claim is not audited",
        "I8",
        (Edit(scripts.CLAIM, "if not begin() then return 'retry' end", "if behind() then return 'retry' end"),),
    ),
    Mutant(
        "a human's leave for the next wave is not audited",
        "I8",
        (Edit(Ledger.record_continuation, "await retry_until_settled(attempt)"),),
        stories.test_who_lets_the_next_wave_go_and_what_somebody_else_returned_is_audited,
    ),
    Mutant(
        "a held node that somebody returned is forgotten without an entry",
        "I8",
        (Edit(Ledger.record_seen_in_service, "await retry_until_settled(attempt)"),),
        stories.test_who_lets_the_next_wave_go_and_what_somebody_else_returned_is_audited,
    ),
    Mutant(
        "the audit chain is not checked",
        "I8",
        (
            Edit(verify_chain, "find_signer(seal, head, line, signature)", "find_signer(seal, head, line, signature) or seal.current"),
            Edit(verify_chain, "not key_id or (age_by_key[key_id] > youngest and parse_line(line).get('event') != STOP_EVENT)", "False"),
            Edit(verify_chain, "head == stored", "True"),
            Edit(verify_chain, "count == length", "True"),
        ),
    ),
    Mutant(
        "a cut end of the audit log goes unnoticed",
        "I8",
        (Edit(verify_chain, "set(posted) - {''}", "set[str]()"),),
        stories.test_a_cut_end_shows_against_the_stored_head_and_against_a_posted_one,
    ),
    Mutant(
        "secrets reach the audit log",
        "I8",
        (Edit(redact_note, "redact(text)", "text"),),
        stories.test_no_secret_and_no_output_reaches_the_audit_log_or_a_record,
    ),
    Mutant("the kill switch is ignored", "I9", (Edit(scripts.CLAIM, "if stopped then return 'stopped '..stopped end"), BRAKES_UNASKED)),
    Mutant(
        "the breaker is not sticky",
        "I9",
        (
            Edit(
                Ledger._trip_breaker,
                "await self._set_brake('breaker_trips', worker, f'breaker:{record.terms.group}', reason, record.terms.group)",
            ),
        ),
    ),
    Mutant(
        "the breaker never trips", "I9", (Edit(scripts.CLAIM, "if others(window, now - window_ms) > window_most then return 'trip' end"),)
    ),
    Mutant(
        "versions are not compared",
        "I10",
        (Edit(Ledger._require_claimable, "(record.action.policy, record.action.catalogue) != (policy, catalogue)", "False"),),
    ),
    Mutant(
        "whoever asks what is late takes it off the list",
        "I12",
        (
            Edit(
                LedgerReader.list_due,
                "now = to_milliseconds(self._clock.now())",
                'now = to_milliseconds(self._clock.now())\nawait self._redis.zremrangebyscore(f"{self._prefix}due", "-inf", now)',
            ),
        ),
    ),
    Mutant(
        "reads are counted in what is read",
        "I12",
        (
            Edit(
                LedgerReader.get_record,
                "fields, votes = await pipe.execute()",
                'fields, votes = await pipe.execute()\nawait self._redis.hincrby(f"{self._prefix}apr:{approval}", "reads", 1)',
            ),
        ),
    ),
    Mutant(
        "whoever looks at the brakes lets go of what is held",
        "I12",
        (
            Edit(
                LedgerReader.get_brake_status,
                "await cast(Any, self._redis.smembers(f'{self._prefix}held'))",
                "[await cast(Any, self._redis.spop(f'{self._prefix}held')) or b'']",
            ),
        ),
    ),
    Mutant(
        "a replayed click counts",
        "I15",
        (Edit(scripts.VOTE, "if redis.call('EXISTS', P..'seen:'..delivery) == 1 then return 'replayed' end"),),
    ),
    Mutant(
        "the blast radius is ignored",
        "I19",
        (Edit(scripts.CLAIM, "if others(blast, now - blast_ms) > blast_most then return 'blast' end"),),
    ),
    Mutant("any number of hosts at once", "I19", (Edit(scripts.CLAIM, "if others(busy) > at_once then return 'fleet' end"),)),
    Mutant("the target is not locked", "I21", (Edit(scripts.CLAIM, "if holder then return 'busy '..holder end"), BRAKES_UNASKED)),
    Mutant("unknown releases the target", "I21", (Edit(scripts.FINISH, "if becomes ~= 'unknown' then release() end", "release()"),)),
    Mutant(
        "a reboot leaves the reset approved",
        "I21",
        (Edit(Ledger.list_covered, "await self._is_covered(name, record.terms.covers, own_targets)", "False"),),
    ),
    Mutant(
        "remedies run on a store that forgets",
        "design §7",
        (Edit(Ledger._require_permission_to_act, "self._distrust if isinstance(self._distrust, str) else await self._distrust()", '""'),),
        stories.test_on_a_store_that_forgets_nothing_runs,
    ),
)


def machine_complaint(breaks: str = "") -> str:
    """Return the state machine's complaint, or "". It starts with the stories of the broken invariants."""
    first = set(breaks.lower().split())
    stories = sorted(STORIES, key=lambda story: first.isdisjoint(story.split("_")))
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            live(MACHINE_SETTINGS, stories)
    except Exception as error:  # any exception is a complaint
        return f"{type(error).__name__}: {error}"
    return ""


def story_complaint(story: Callable[..., Coroutine[Any, Any, None]]) -> str:
    """Run one story on an empty store and return its complaint, or ""."""
    assert list(inspect.signature(story).parameters) == ["desk"], f"{story.__name__} needs more than a desk"

    async def tell() -> None:
        async with FakeAsyncRedis(server=FakeServer()) as redis:
            await story(Desk(redis))

    try:
        asyncio.run(tell())
    except BaseException as error:  # pytest's own failures are no Exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    return ""


def still_works() -> bool:
    """Return whether an approved action runs to its end: killing a mutant that can do nothing proves nothing."""

    async def run_approved() -> bool:
        async with FakeAsyncRedis(server=FakeServer()) as redis:
            desk = Desk(redis)
            return str((await desk.ran(await desk.approved())).state) == "done"

    return asyncio.run(run_approved())


def kill(mutant: Mutant) -> str:
    """Return the killer's complaint about the mutant, or "" if it survives."""

    def killer() -> str:
        assert still_works(), f"{mutant.name}: this mutant cannot do anything at all"
        return story_complaint(mutant.story) if mutant.story else machine_complaint(mutant.breaks)

    return run_mutant(mutant, killer)


def control() -> str:
    """Return any killer's complaint about the ledger without a bug, recompiled as mutants are."""
    stories_once = dict.fromkeys(mutant.story for mutant in MUTANTS if mutant.story)
    return run_mutant(
        unchanged(MUTANTS), lambda: machine_complaint() or next(filter(None, (story_complaint(story) for story in stories_once)), "")
    )
