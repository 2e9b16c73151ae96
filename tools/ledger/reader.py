"""The ledger's verified reads and manual brakes. State changes of actions are in `tools.ledger.ledger`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from redis.asyncio import Redis

from kb.redact import redact
from tools.action import Action
from tools.clock import Clock
from tools.ledger import audit, record
from tools.ledger.audit import ActionHistory, read_action_history
from tools.ledger.brakes import BREAKER_PREFIX, STOP_BRAKE, Brakes, BrakeStatus, BrakeUsage
from tools.ledger.journal import (
    ChainRewound,
    ClockChoice,
    Journal,
    JournalHead,
    KeyParts,
    build_key_parts,
    format_refusal,
    retry_until_settled,
)
from tools.ledger.logged_states import LoggedStates
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.redis_replies import decode_hash, decode_text, decode_texts, translate_redis_errors
from tools.ledger.seal import Seal, parse_record, to_milliseconds
from tools.ledger.states import OPEN_STATES, TERMINAL_STATES

MAX_NOTE_CHARS = 500
MAX_SCORE = 10**13
BRAKES_CHANGED_TEXT = (
    "kill switch, breakers or held hosts were changed in Redis by another program. Compare them with the audit log before resuming"
)


def ignore_head(length: int, head: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class LedgerKeyStatus:
    """The keys. `newest` signed the newest audit entry: None for an empty log, "" if not ours."""

    current: str
    older: tuple[str, ...]
    newest: str | None
    waiting: tuple[str, ...]  # open approvals signed with an earlier key; they cannot be decided
    running: tuple[str, ...]  # running or unknown actions under an earlier key; they end under it

    @property
    def changing(self) -> bool:
        return self.newest in self.older or bool(self.waiting)


class LedgerReader:
    """The ledger's reads: records, due index, audit log and brakes.

    `distrust`: why no remedy may run on this store, or ""; a function is called at every claim. `anchor` receives each
    new length and head of the audit chain; `seen` is the last pair kept outside Redis: a chain without it is an older
    copy, and everything stops until a human has looked.
    `older_keys`: keys of earlier records.
    """

    def __init__(
        self,
        redis: Redis,
        key: bytes,
        clock: Clock,
        *,
        brakes: Brakes | None = None,
        distrust: str | Callable[[], Awaitable[str]] = "",
        anchor: Callable[[int, str], None] = ignore_head,
        seen: tuple[int, str] = (0, ""),
        older_keys: Sequence[bytes] = (),
        prefix: str = "rm:ledger:",
    ) -> None:
        self._redis, self._seal, self._clock = redis, Seal(key, older_keys), clock
        self._brakes, self._distrust, self._prefix = brakes or Brakes(), distrust, prefix
        self._journal = Journal(redis, self._seal, clock, anchor, prefix, seen)
        self._logged = LoggedStates(redis, self._seal, prefix)

    @property
    def brakes(self) -> Brakes:
        return self._brakes

    # -- reading ----------------------------------------------------------------------------------------------------

    async def get_record(self, approval: str) -> ActionRecord:
        """Return one action, every signature checked. Raises NotFound, TamperedRecord."""
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hgetall(f"{self._prefix}apr:{approval}")
            pipe.hgetall(f"{self._prefix}votes:{approval}")
            fields, votes = await pipe.execute()
        if not fields:
            raise record.NotFound(f"{record.NotFound.__doc__} ({approval[:80]})")
        return parse_record(approval, decode_hash(fields), decode_hash(votes), self._seal)

    async def list_incident_records(self, incident: str) -> list[ActionRecord]:
        """List an incident's actions, oldest first."""
        async with translate_redis_errors():
            ids = decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}of:{incident}")))
        return sorted([await self.get_record(approval) for approval in ids], key=lambda row: (row.proposed_at, row.approval))

    async def list_due(self, limit: int = 100) -> list[str]:
        """List approvals past a deadline to decide, start or send a heartbeat."""
        async with translate_redis_errors():
            now = to_milliseconds(self._clock.now())
            return decode_texts(await self._redis.zrangebyscore(f"{self._prefix}due", "-inf", now, start=0, num=limit))

    async def verify_audit(self, posted: Iterable[str] = ()) -> audit.AuditReport:
        """Verify the chain; `posted` are heads kept elsewhere."""
        return await audit.verify_chain(self._redis, self._prefix, self._seal, posted)

    async def is_own_chain(self) -> bool:
        """Return whether our keys signed the first entry; True for an empty chain."""
        return await audit.is_begun_with(self._redis, self._prefix, self._seal)

    async def get_key_state(self) -> Literal["ours", "earlier", "strange"]:
        """Return which key signed the newest entry; `ours` for an empty log."""
        newest = await audit.find_newest_signer(self._redis, self._prefix, self._seal)
        if newest == "":
            return "strange"
        return "ours" if newest in (None, self._seal.current) else "earlier"

    async def get_key_status(self) -> LedgerKeyStatus:
        """Return the keys and the unfinished actions under earlier ones."""
        newest = await audit.find_newest_signer(self._redis, self._prefix, self._seal)
        async with translate_redis_errors():
            names = decode_texts(await self._redis.zrange(f"{self._prefix}due", 0, -1))
            names += decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}held")))
        waiting, running = list[str](), list[str]()
        for approval in sorted(set(names)):
            with suppress(record.NotFound, record.TamperedRecord):  # nothing runs on a tampered record
                signer_record = await self.get_record(approval)
                if signer_record.old_key and signer_record.state not in TERMINAL_STATES:
                    (waiting if signer_record.state in OPEN_STATES else running).append(approval)
        return LedgerKeyStatus(self._seal.current, self._seal.ids[1:], newest, tuple(waiting), tuple(running))

    def export_audit(self) -> AsyncIterator[str]:
        return audit.export_entries(self._redis, self._prefix)

    async def get_history(self, incident: str, since: datetime) -> ActionHistory:
        return await read_action_history(self._redis, self._prefix, incident, since)

    # -- brakes -----------------------------------------------------------------------------------------------------

    async def stop(self, who: str, why: str) -> None:
        """Pull the kill switch: no further claims. Running actions continue."""
        why = redact_note(why) or "no reason given"
        await self._set_brake("stop", who, "stop", f"{who}: {why}", why=why)

    async def has_altered_brakes(self) -> bool:
        """Return whether another writer changed the brakes and no human has resumed since."""
        return (await self._journal.read_head("whatever")).altered

    async def resume(self, who: str) -> None:
        """Release the kill switch. The stored brakes count from now on; the human has checked them."""
        await self._set_brake("resume", who, "stop", "")

    async def reset_breaker(self, group: str, who: str) -> None:
        """Reset a group's breaker and window after a human has looked."""
        await self._set_brake("breaker_reset", who, f"breaker:{group}", "", group)

    async def record_continuation(self, incident: str, label: str, hosts: Sequence[str], who: str) -> None:
        """Record that a person continues a remediation that failed on some hosts, before proposing it on more."""

        async def attempt() -> str:
            look = await self._read_head_or_stop()
            line = audit.build_entry("wave_let_go", "", who, look.at, incident=incident, label=label, after=sorted(hosts))
            return await self._journal.run_script("note", look, KeyParts("-", incident=incident), line)

        await retry_until_settled(attempt)

    async def record_seen_in_service(self, incident: str, host: str, state: str) -> None:
        """Record that another party returned a node we drained, before it leaves our list."""

        async def attempt() -> str:
            look = await self._read_head_or_stop()
            line = audit.build_entry("held_node_in_service", "", "rackmedic", look.at, incident=incident, target=host, state=state[:60])
            return await self._journal.run_script("note", look, KeyParts("-", incident=incident), line)

        await retry_until_settled(attempt)

    async def _set_brake(self, event: str, who: str, brake: str, value: str, group: str = "", why: str = "") -> None:
        async def attempt() -> str:
            look = await self._read_head_or_stop("whatever")
            line = audit.build_entry(event, "", who, look.at, brake=brake, value=value)
            return await self._journal.run_script("switch", look, KeyParts("-", group=group), line, brake, value, who, why)

        await retry_until_settled(attempt)

    async def get_brake_status(self) -> BrakeStatus:
        """Return kill switch, breakers, and running or unknown actions."""
        async with translate_redis_errors():
            brakes = decode_hash(await cast(Any, self._redis.hgetall(f"{self._prefix}brakes")))
            held_back = sorted(decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}held"))))
            states = [decode_text(await cast(Any, self._redis.hget(f"{self._prefix}apr:{name}", "state"))) for name in held_back]
        executing, unknown = (tuple(n for n, s in zip(held_back, states, strict=True) if s == state) for state in ("executing", "unknown"))
        breakers = sorted(name.removeprefix(BREAKER_PREFIX) for name in brakes if name.startswith(BREAKER_PREFIX))
        stopped_by, stop_reason = (brakes.get("stopped_by", "unknown"), brakes.get("stopped_why", "")) if STOP_BRAKE in brakes else ("", "")
        return BrakeStatus(stopped_by, stop_reason, tuple(breakers), executing, unknown)

    async def explain_held_back(self, record: ActionRecord) -> str:
        """Return the refusal of the brake that would block this claim now, or "".

        Advisory: the claim decides, and it alone trips the breaker. Spares a waiting action the readings before a
        claim.
        """
        now, terms, hosts = await self.get_brake_status(), record.terms, set(list_targets(record.action))
        if now.stopped_by:
            return format_refusal("stopped", now.stopped)
        if terms.group in now.breakers:
            return format_refusal("breaker")
        async with translate_redis_errors():
            holders = [decode_text(await self._redis.get(f"{self._prefix}target:{host}")) for host in sorted(hosts)]
        if holder := next(filter(None, holders), ""):
            return format_refusal("busy", holder)
        used, brakes = await self.get_brake_usage(record.action.incident, terms.group), self._brakes
        if terms.changes and len(hosts | set(used.blast)) > brakes.blast_hosts:
            return format_refusal("blast")
        return format_refusal("fleet") if terms.changes and len(hosts | used.busy) > brakes.get_max_at_once(terms.group_size) else ""

    async def get_brake_usage(self, incident: str, group: str) -> BrakeUsage:
        """Count as the claim script does."""
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            for name in (f"blast:{incident}", f"window:{group}", f"busy:{group}"):
                pipe.zrange(f"{self._prefix}{name}", 0, -1, withscores=True)
            blast, window, busy = await pipe.execute()
        now, brakes = self._clock.now(), self._brakes
        return BrakeUsage(
            _filter_counting_hosts(blast, timedelta(seconds=brakes.blast_seconds), now),
            _filter_counting_hosts(window, timedelta(seconds=brakes.window_seconds), now),
            frozenset(decode_text(host) for host, _ in busy),
        )

    # -- private ----------------------------------------------------------------------------------------------------

    async def _read_head_or_stop(self, clock: ClockChoice = "the later") -> JournalHead:
        """Return the journal's head. Pull the kill switch first if Redis lost entries or another writer changed the brakes."""
        try:
            head = await self._journal.read_head(clock)
        except ChainRewound as error:
            return await self._stop_with_reason(f"{error}. Compare the hosts' own records with the ledger before resuming", clock)
        return (
            await self._stop_with_reason(BRAKES_CHANGED_TEXT, clock)
            if head.altered and STOP_BRAKE not in head.brakes.pulled and clock != "whatever"
            else head
        )

    async def _stop_with_reason(self, why: str, clock: ClockChoice) -> JournalHead:
        await self.stop("rackmedic", why)
        return await self._journal.read_head(clock)

    async def _is_confirmed(self, seen: ActionRecord) -> bool:
        """Return whether the audit log agrees; False if the record moved meanwhile.

        Raises TamperedRecord if an older record replaced the newest: its signatures are still valid.
        """
        if await self._logged.confirms_state(seen):
            return True
        before = (await self._read_head_or_stop()).head
        current_record = await self.get_record(seen.approval)
        if not await self._logged.confirms_state(current_record) and (await self._read_head_or_stop()).head == before:
            raise record.TamperedRecord(
                f"{record.TamperedRecord.__doc__} ({seen.approval} is {current_record.state} there, and the audit log says otherwise)"
            )
        return False

    async def _run_script(self, script: str, record: ActionRecord, event: str, by: str, rest: tuple[Any, ...], **more: Any) -> str:
        look = await self._read_head_or_stop()
        return await self._journal.run_script(
            script, look, get_key_parts(record), build_audit_line(event, record.action, by, look, **more), *rest
        )


def _filter_counting_hosts(rows: Iterable[tuple[Any, float]], lasts: timedelta, now: datetime) -> dict[str, datetime]:
    moments = {decode_text(host): _parse_score_time(score) for host, score in rows}
    return {host: at + lasts for host, at in moments.items() if at + lasts > now}


def _parse_score_time(score: float) -> datetime:
    """Raises TamperedRecord."""
    if not 0 <= score < MAX_SCORE:
        raise record.TamperedRecord(f"{record.TamperedRecord.__doc__} ({score!r} is no moment)")
    return datetime.fromtimestamp(score / 1000, UTC)


def get_key_parts(record: ActionRecord) -> KeyParts:
    """Return the parts for a record's keys."""
    return build_key_parts(record.action, record.terms.group)


def build_audit_line(event: str, action: Action, by: str, look: JournalHead, **more: Any) -> str:
    """Return an audit line about an action."""
    return audit.build_entry(event, action.approval, by, look.at, incident=action.incident, **more)


def redact_note(text: str) -> str:
    """Redact and truncate people's or tools' text for storage."""
    return redact(text)[:MAX_NOTE_CHARS]


# Remaining headroom of the brakes per group and incident.

MAX_INCIDENTS = 50


@dataclass(frozen=True, slots=True)
class GroupHeadroom:
    """Hosts under change and changed within the window, each with its limit."""

    group: str
    busy: int
    at_once: int
    changed: int
    window: int


@dataclass(frozen=True, slots=True)
class IncidentHeadroom:
    """Hosts changed within the blast window; `again` is when the first stops counting."""

    incident: str
    changed: int
    again: datetime


@dataclass(frozen=True, slots=True)
class BrakeHeadroom:
    """Headroom of groups and incidents."""

    brakes: Brakes
    groups: tuple[GroupHeadroom, ...] = ()  # groups with hosts, busiest first
    incidents: tuple[IncidentHeadroom, ...] = ()  # incidents that have changed hosts


async def compute_headroom(ledger: LedgerReader, groups: Mapping[str, Sequence[str]], incidents: Sequence[str]) -> BrakeHeadroom:
    """Compute as the ledger counts, for at most MAX_INCIDENTS incidents."""
    rows = [await _compute_group_headroom(ledger, group, len(hosts)) for group, hosts in groups.items() if hosts]
    used = [await _compute_incident_headroom(ledger, incident) for incident in incidents[:MAX_INCIDENTS]]
    return BrakeHeadroom(
        ledger.brakes, tuple(sorted(rows, key=lambda row: (-row.changed, -row.busy, row.group))), tuple(filter(None, used))
    )


async def _compute_group_headroom(ledger: LedgerReader, group: str, size: int) -> GroupHeadroom:
    used, brakes = await ledger.get_brake_usage("", group), ledger.brakes
    return GroupHeadroom(group, len(used.busy), brakes.get_max_at_once(size), len(used.window), brakes.get_max_in_window(size))


async def _compute_incident_headroom(ledger: LedgerReader, incident: str) -> IncidentHeadroom | None:
    blast = (await ledger.get_brake_usage(incident, "")).blast
    return IncidentHeadroom(incident, len(blast), min(blast.values())) if blast else None
