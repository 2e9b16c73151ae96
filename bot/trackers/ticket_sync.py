"""Sends tickets to trackers once, and polls them. Safe in several processes.

An attempt is noted before it is made. If its result is unknown (crash, lost answer), a deduplicating tracker gets it
again; in others the ticket is searched first, until the search is reliable.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from redis.exceptions import RedisError

from bot.store.external_outbox import MAX_RETRY_DELAY, Outbox, OutboxRow, compute_retry_delay
from bot.tasks import run_periodically
from bot.trackers.comments import format_closing_comment
from bot.trackers.ticket_draft import TrackerDraft
from bot.trackers.tracker import RemoteComment, RemoteStatus, RemoteTicket, Tracker, TrackerRefused, TrackerTicketGone, TrackerUnavailable
from tools.clock import Clock

log = structlog.get_logger()
SWEEP_INTERVAL_SECONDS = 2.0  # pause between sweeps
MAX_CONCURRENT_ROWS = 8  # rows processed at once
# share of the outbox lease that a step may take, so that it ends before another process takes over
STEP_LEASE_RATIO = 5 / 6
BEGAN_KEY = "began"
CHANGED_KEY = "changed"
URL_KEY = "url"
SHOWN_KEY = "shown"
SEEN_KEY = "seen"
DONE_KEY = "done"
CLOSE_SENT_KEY = "told_closed"
HANDLED_COMMENTS_KEY = "remarked"  # notes on comments: hashes of handled ones
COMMENT_COUNT_KEY = "remarks"  # count shown
COMMENTS_UNREAD_KEY = "unread"  # why unreadable
STUCK_COMMENT_KEY = "stuck"  # the one Slack rejects
# Comments shown per poll (newest) and per ticket; hashes kept, far more than are fetched; attempts per comment, over
# some hours.
MAX_COMMENTS_PER_POLL = 5
MAX_COMMENTS_PER_TICKET = 100
MAX_KEPT_COMMENT_HASHES = 100
MAX_COMMENT_TRIES = 12
FIRST_POLL_DELAY = timedelta(seconds=5)
POLL_INTERVAL = timedelta(minutes=1)  # for a recently changed ticket; default of `tracker_poll_seconds`
# (time since the last change, multiple of the interval); after the last a ticket is not polled any more
POLL_BACKOFF: tuple[tuple[timedelta, int], ...] = ((timedelta(hours=1), 1), (timedelta(days=1), 5), (timedelta(days=90), 30))
# a ticket done there may be reopened, so it is polled for a while, at this multiple
DONE_POLL_PERIOD = timedelta(days=7)
DONE_POLL_MULTIPLE = 30
UNCERTAIN_DELIVERY_TEXT = "whether it arrived is not known: it is looked for before it is sent again"


def compute_next_poll(since: timedelta, poll: timedelta, *, done: bool, over: bool) -> timedelta | None:
    """Return the time until the next poll, or None. `since`: the last change; `over`: closed here, nothing expected."""
    if done or over:
        return poll * DONE_POLL_MULTIPLE if since < DONE_POLL_PERIOD and not over else None
    return next((poll * times for until, times in POLL_BACKOFF if since < until), None)


@dataclass(frozen=True, slots=True)
class TicketSync:
    """Sends and polls.

    Attributes:
        paint: redraws a row's message.
        closing: returns an incident's closing cause, None while open.
        tell: posts a comment with a note, once; returns whether it is done.
    """

    outbox: Outbox
    trackers: Mapping[str, Tracker]
    clock: Clock
    paint: Callable[[str], Awaitable[None]]
    closing: Callable[[str], Awaitable[str | None]]
    tell: Callable[[str, RemoteComment, str], Awaitable[bool]]
    poll: timedelta = POLL_INTERVAL
    every: float = SWEEP_INTERVAL_SECONDS
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Sweep at once and until cancelled: a restart finds what was queued before a crash."""
        await run_periodically("trackers", self.sweep, self.every, pause=self.pause)

    async def sweep(self) -> int:
        """Send and poll due rows; return their number."""
        due_rows = await self.outbox.claim_due(MAX_CONCURRENT_ROWS)
        for failed in await asyncio.gather(*map(self._lease_and_process, due_rows), return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed
        return len(due_rows)

    async def _lease_and_process(self, name: str) -> None:
        try:
            async with asyncio.timeout(self.outbox.lease.total_seconds() * STEP_LEASE_RATIO):
                if row := await self.outbox.begin_sending(name):
                    await self._process_row(row)
        except RedisError:
            raise
        except Exception:
            log.exception("trackers.step_failed", row=name)  # one bad row must not block the others

    async def _process_row(self, row: OutboxRow) -> None:
        tracker = self.trackers.get(row.place)
        if not row.document or tracker is None:
            log.warning("trackers.forgotten", row=row.name, configured=tracker is not None)
            await self.outbox.remove_due(row.name)
            return
        try:
            await (self._send_ticket(row, tracker) if row.pending else self._poll_ticket(row, tracker))
        except TrackerUnavailable as error:
            log.warning("trackers.away", row=row.name, tries=row.tries + 1, why=str(error))
            await self.outbox.postpone_row(row, str(error), max(compute_retry_delay(row.tries), timedelta(seconds=error.after)))
        except TrackerTicketGone as error:
            log.warning("trackers.gone", row=row.name, why=str(error))
            await self.outbox.mark_refused(row, str(error), ticket="", began="")
        except TrackerRefused as error:
            log.warning("trackers.refused", row=row.name, why=str(error))
            await self._handle_refusal(row, str(error))
        await self.paint(row.name)

    async def _send_ticket(self, row: OutboxRow, tracker: Tracker) -> None:
        draft = TrackerDraft.model_validate_json(row.document)
        began_at = _parse_moment(row.notes.get(BEGAN_KEY, ""))
        if not tracker.repeatable and (earlier_ticket := await self._find_earlier_ticket(row, tracker, draft, began_at)):
            await self._record_arrival(row, tracker, earlier_ticket)
            return
        await self.outbox.record_notes(row, **{BEGAN_KEY: self.clock.now().isoformat()})
        try:
            ticket = await tracker.create_ticket(draft)
        except TrackerUnavailable as error:
            if not error.maybe:
                await self.outbox.record_notes(row, **{BEGAN_KEY: ""})
            raise
        except TrackerRefused:
            await self.outbox.record_notes(row, **{BEGAN_KEY: ""})
            raise
        await self._record_arrival(row, tracker, ticket)

    async def _find_earlier_ticket(
        self, row: OutboxRow, tracker: Tracker, draft: TrackerDraft, began: datetime | None
    ) -> RemoteTicket | None:
        """Return an earlier attempt's ticket. Raises TrackerUnavailable while uncertain."""
        ticket = await tracker.find_ticket(draft, began or row.at or self.clock.now())
        if ticket is None and began is not None and (settling_time := tracker.settles - (self.clock.now() - began)) > timedelta():
            raise TrackerUnavailable(UNCERTAIN_DELIVERY_TEXT, settling_time.total_seconds())
        return ticket

    async def _record_arrival(self, row: OutboxRow, tracker: Tracker, made: RemoteTicket) -> None:
        log.info("trackers.sent", row=row.name, ticket=made.shown)
        notes = {
            URL_KEY: made.url,
            SHOWN_KEY: made.shown,
            CHANGED_KEY: self.clock.now().isoformat(),
            BEGAN_KEY: "",
            SEEN_KEY: "",
            DONE_KEY: "",
            HANDLED_COMMENTS_KEY: "",
        }
        next_poll = min(FIRST_POLL_DELAY, self.poll) if tracker.tells or tracker.on_close != "nothing" else None
        await self.outbox.mark_arrived(row, made.id, "", next_poll, **notes)

    async def _poll_ticket(self, row: OutboxRow, tracker: Tracker) -> None:
        cause = await self.closing(row.incident)
        if cause is not None and tracker.on_close != "nothing" and not row.notes.get(CLOSE_SENT_KEY):
            await self.outbox.record_notes(row, **{CLOSE_SENT_KEY: "1"})  # noted before it is sent: a duplicate is worse than a loss
            await tracker.close_ticket(row.ticket, format_closing_comment(row.incident, cause))
        now = await tracker.fetch_status(row.ticket, row.notes.get(SEEN_KEY, "")) if tracker.tells else None
        state, is_done = (now.state, now.done) if now else (row.state, row.notes.get(DONE_KEY) == "1")
        changed = self.clock.now() if state != row.state else _parse_moment(row.notes.get(CHANGED_KEY, "")) or self.clock.now()
        untold = await self._post_new_comments(row, now) if now else None
        over = cause is not None and (is_done or not tracker.tells)
        next_poll = untold or compute_next_poll(self.clock.now() - changed, self.poll, done=is_done, over=over)
        notes = {CHANGED_KEY: changed.isoformat(), DONE_KEY: "1" if is_done else "", **_build_status_notes(now, whole=untold is None)}
        await self.outbox.record_state(row, state, next_poll, **notes)

    async def _post_new_comments(self, row: OutboxRow, now: RemoteStatus) -> timedelta | None:
        """Post new comments, noting each before the next. Returns when to retry.

        Comments from before the first poll are not posted.
        """
        handled = row.notes.get(HANDLED_COMMENTS_KEY)
        signs, count = (handled or "").split(), int(row.notes.get(COMMENT_COUNT_KEY, "0"))
        fresh = [remark for remark in now.remarks if remark.id_hash not in signs]
        foreign_comments = [remark for remark in fresh if not remark.is_own] if handled is not None else []
        shown_comments = foreign_comments[-MAX_COMMENTS_PER_POLL:]
        signs += [remark.id_hash for remark in fresh if remark not in shown_comments]
        for remark in shown_comments:
            if count < MAX_COMMENTS_PER_TICKET:
                count += 1
                omission = _format_omission(count, len(foreign_comments) - len(shown_comments) if remark is shown_comments[0] else 0)
                took = await self.tell(row.name, remark, omission)
                if not took and (retry_delay := await self._note_stuck_comment(row, remark.id_hash)):
                    return retry_delay
            signs.append(remark.id_hash)
            await self.outbox.record_notes(
                row, **{HANDLED_COMMENTS_KEY: " ".join(signs[-MAX_KEPT_COMMENT_HASHES:]), COMMENT_COUNT_KEY: str(count)}
            )
        if fresh or handled is None:
            await self.outbox.record_notes(row, **{HANDLED_COMMENTS_KEY: " ".join(signs[-MAX_KEPT_COMMENT_HASHES:])})
        return None

    async def _note_stuck_comment(self, row: OutboxRow, sign: str) -> timedelta | None:
        """Return when to retry; None after MAX_COMMENT_TRIES, so that later comments proceed."""
        before, _, count = row.notes.get(STUCK_COMMENT_KEY, "").partition(" ")
        tries = 1 + (int(count) if before == sign else 0)
        await self.outbox.record_notes(row, **{STUCK_COMMENT_KEY: f"{sign} {tries}"})
        if tries < MAX_COMMENT_TRIES:
            return compute_retry_delay(tries)
        log.warning("trackers.comment_left", row=row.name, tries=tries)
        return None

    async def _handle_refusal(self, row: OutboxRow, why: str) -> None:
        """End an uncreated ticket; retry a poll later."""
        if row.pending:
            await self.outbox.mark_refused(row, why)
        else:
            await self.outbox.postpone_row(row, why, MAX_RETRY_DELAY)


def _format_omission(count: int, earlier: int) -> str:
    if count == MAX_COMMENTS_PER_TICKET:
        return f"That was number {MAX_COMMENTS_PER_TICKET}: further comments are shown only there."
    return f"{earlier} earlier {'comment is' if earlier == 1 else 'comments are'} shown only there." if earlier else ""


def _build_status_notes(now: RemoteStatus | None, *, whole: bool) -> Mapping[str, str]:
    """Return notes; `seen` only if all was posted, so that the rest is fetched again."""
    if now is None:
        return {}
    whole = whole and not now.unread
    return {
        COMMENTS_UNREAD_KEY: now.unread,
        SEEN_KEY: now.seen if whole else "",
        SHOWN_KEY: now.ticket.shown,
        **({URL_KEY: now.ticket.url} if now.ticket.url else {}),
    }


def _parse_moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
