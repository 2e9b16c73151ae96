"""Takes what was clicked to its tracker, once, and asks how far it is from then on. Any number of processes may do so.

A try is noted before it is made. Whoever finds one noted does not know whether it arrived (the process died, the answer was lost): where the
tracker tells the same by its marker it is sent again, and else looked for first, until it would be found for certain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from redis.exceptions import RedisError

from bot.store.outbox import LAST_AGAIN, Outbox, Sending, backoff
from bot.tasks import run_periodically
from bot.trackers.draft import TrackerDraft
from bot.trackers.remarks import closing_words
from bot.trackers.tracker import RemoteRemark, RemoteStanding, RemoteTicket, Tracker, TrackerAway, TrackerGone, TrackerRefused
from tools.clock import Clock

log = structlog.get_logger()
EVERY, AT_ONCE = 2.0, 8
"""Seconds between sweeps; rows at once."""
STEP_SHARE = 5 / 6
"""Share of the outbox's lease that one step with a row may take: less than the time after which another process takes the row over."""
BEGAN, CHANGED, URL, SHOWN, SEEN, DONE, TOLD_CLOSED = "began", "changed", "url", "shown", "seen", "done", "told_closed"
"""What is noted of a row."""
REMARKED, REMARKS, UNREAD, STUCK = "remarked", "remarks", "unread", "stuck"
"""The same of comments: signs of those that are dealt with, how many were shown, why they cannot be read, and which one Slack does not take."""
MOST_AT_ONCE, MOST_REMARKS, SIGNS, MOST_TRIES = 5, 100, 100, 12
"""Comments of one look that are shown, the newest; of one ticket; signs that are kept, many more than are looked at; and tries of one, some hours."""
FIRST_LOOK = timedelta(seconds=5)
POLL = timedelta(minutes=1)
"""Interval between two looks at a ticket that changed lately. The default of the setting `tracker_poll_seconds`."""
PACE: tuple[tuple[timedelta, int], ...] = ((timedelta(hours=1), 1), (timedelta(days=1), 5), (timedelta(days=90), 30))
"""Time since the last change, and by what the interval is multiplied until then. After the last row a ticket is not looked at any more."""
DONE_FOR, DONE_PACE = timedelta(days=7), 30
"""How long a ticket that is done there is still looked at, because it may be opened again, and the multiple of the interval."""
DOUBT = "whether it arrived is not known: it is looked for before it is sent again"


def next_look(since: timedelta, poll: timedelta, *, done: bool, over: bool) -> timedelta | None:
    """Return the time until the next look, `since` the last change; None: never. `over`: closed here, and nothing more can come from there."""
    if done or over:
        return poll * DONE_PACE if since < DONE_FOR and not over else None
    return next((poll * times for until, times in PACE if since < until), None)


@dataclass(frozen=True, slots=True)
class Courier:
    """`paint` shows where a row stands; `tell` shows what somebody wrote there, once however often it is asked to, with words of ours, and says
    whether it did; `closing` says with what cause an incident was closed, None while it is not."""

    outbox: Outbox
    trackers: Mapping[str, Tracker]
    clock: Clock
    paint: Callable[[str], Awaitable[None]]
    closing: Callable[[str], Awaitable[str | None]]
    tell: Callable[[str, RemoteRemark, str], Awaitable[bool]]
    poll: timedelta = POLL
    every: float = EVERY
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Until cancelled. The first look is at once: a restart finds what was clicked before the crash."""
        await run_periodically("trackers", self.sweep, self.every, pause=self.pause)

    async def sweep(self) -> int:
        """Send and ask what is due; how many."""
        due = await self.outbox.take(AT_ONCE)
        for failed in await asyncio.gather(*map(self._one, due), return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed
        return len(due)

    async def _one(self, name: str) -> None:
        try:
            async with asyncio.timeout(self.outbox.lease.total_seconds() * STEP_SHARE):
                if row := await self.outbox.begin(name):
                    await self._step(row)
        except RedisError:
            raise
        except Exception:
            log.exception("trackers.step_failed", row=name)  # one bad row must not hide the others

    async def _step(self, row: Sending) -> None:
        tracker = self.trackers.get(row.place)
        if not row.document or tracker is None:
            log.warning("trackers.forgotten", row=row.name, configured=tracker is not None)
            await self.outbox.forget(row.name)
            return
        try:
            await (self._send(row, tracker) if row.pending else self._ask(row, tracker))
        except TrackerAway as away:
            log.warning("trackers.away", row=row.name, tries=row.tries + 1, why=str(away))
            await self.outbox.put_off(row, str(away), max(backoff(row.tries), timedelta(seconds=away.after)))
        except TrackerGone as gone:
            log.warning("trackers.gone", row=row.name, why=str(gone))
            await self.outbox.refuse(row, str(gone), ticket="", began="")
        except TrackerRefused as no:
            log.warning("trackers.refused", row=row.name, why=str(no))
            await self._refused(row, str(no))
        await self.paint(row.name)

    async def _send(self, row: Sending, tracker: Tracker) -> None:
        draft = TrackerDraft.model_validate_json(row.document)
        began = _moment(row.notes.get(BEGAN, ""))
        if not tracker.repeatable and (found := await self._found(row, tracker, draft, began)):
            await self._arrived(row, tracker, found)
            return
        await self.outbox.note(row, **{BEGAN: self.clock.now().isoformat()})
        try:
            made = await tracker.create(draft)
        except TrackerAway as away:
            if not away.maybe:
                await self.outbox.note(row, **{BEGAN: ""})
            raise
        except TrackerRefused:
            await self.outbox.note(row, **{BEGAN: ""})
            raise
        await self._arrived(row, tracker, made)

    async def _found(self, row: Sending, tracker: Tracker, draft: TrackerDraft, began: datetime | None) -> RemoteTicket | None:
        """What an earlier try made. Raises TrackerAway as long as it cannot be told for certain that it made nothing."""
        found = await tracker.find(draft, began or row.at or self.clock.now())
        if found is None and began is not None and (left := tracker.settles - (self.clock.now() - began)) > timedelta():
            raise TrackerAway(DOUBT, left.total_seconds())
        return found

    async def _arrived(self, row: Sending, tracker: Tracker, made: RemoteTicket) -> None:
        log.info("trackers.sent", row=row.name, ticket=made.shown)
        notes = {URL: made.url, SHOWN: made.shown, CHANGED: self.clock.now().isoformat(), BEGAN: "", SEEN: "", DONE: "", REMARKED: ""}
        again = min(FIRST_LOOK, self.poll) if tracker.tells or tracker.on_close != "nothing" else None
        await self.outbox.arrived(row, made.id, "", again, **notes)

    async def _ask(self, row: Sending, tracker: Tracker) -> None:
        cause = await self.closing(row.incident)
        if cause is not None and tracker.on_close != "nothing" and not row.notes.get(TOLD_CLOSED):
            await self.outbox.note(row, **{TOLD_CLOSED: "1"})  # before it is told: twice is worse than never
            await tracker.close(row.ticket, closing_words(row.incident, cause))
        now = await tracker.look(row.ticket, row.notes.get(SEEN, "")) if tracker.tells else None
        state, done = (now.state, now.done) if now else (row.state, row.notes.get(DONE) == "1")
        changed = self.clock.now() if state != row.state else _moment(row.notes.get(CHANGED, "")) or self.clock.now()
        untold = await self._tell(row, now) if now else None
        over = cause is not None and (done or not tracker.tells)
        again = untold or next_look(self.clock.now() - changed, self.poll, done=done, over=over)
        notes = {CHANGED: changed.isoformat(), DONE: "1" if done else "", **_noted(now, whole=untold is None)}
        await self.outbox.moved(row, state, again, **notes)

    async def _tell(self, row: Sending, now: RemoteStanding) -> timedelta | None:
        """Show what is new of what people wrote there, and note each before the next; when to ask again where that is not through. What stood there
        before comments were read at all stays there."""
        known = row.notes.get(REMARKED)
        signs, count = (known or "").split(), int(row.notes.get(REMARKS, "0"))
        fresh = [remark for remark in now.remarks if remark.sign not in signs]
        theirs = [remark for remark in fresh if not remark.ours] if known is not None else []
        shown = theirs[-MOST_AT_ONCE:]
        signs += [remark.sign for remark in fresh if remark not in shown]
        for remark in shown:
            if count < MOST_REMARKS:
                count += 1
                beside = _beside(count, len(theirs) - len(shown) if remark is shown[0] else 0)
                took = await self.tell(row.name, remark, beside)
                if not took and (again := await self._stuck(row, remark.sign)):
                    return again
            signs.append(remark.sign)
            await self.outbox.note(row, **{REMARKED: " ".join(signs[-SIGNS:]), REMARKS: str(count)})
        if fresh or known is None:
            await self.outbox.note(row, **{REMARKED: " ".join(signs[-SIGNS:])})
        return None

    async def _stuck(self, row: Sending, sign: str) -> timedelta | None:
        """Slack did not take a comment: when to try again; None where it never will, so that it hides no other."""
        before, _, count = row.notes.get(STUCK, "").partition(" ")
        tries = 1 + (int(count) if before == sign else 0)
        await self.outbox.note(row, **{STUCK: f"{sign} {tries}"})
        if tries < MOST_TRIES:
            return backoff(tries)
        log.warning("trackers.comment_left", row=row.name, tries=tries)
        return None

    async def _refused(self, row: Sending, why: str) -> None:
        """A ticket that was not made is over; how far one is may be asked again later."""
        if row.pending:
            await self.outbox.refuse(row, why)
        else:
            await self.outbox.put_off(row, why, LAST_AGAIN)


def _beside(count: int, earlier: int) -> str:
    """What a reader should know of comments that are not shown."""
    if count == MOST_REMARKS:
        return f"That was number {MOST_REMARKS}: from here on comments are shown there alone."
    return f"{earlier} more that came before it {'stands' if earlier == 1 else 'stand'} there alone." if earlier else ""


def _noted(now: RemoteStanding | None, *, whole: bool) -> Mapping[str, str]:
    """`seen` is kept once all of it was shown: what was not is asked for again, whether or not something changes."""
    if now is None:
        return {}
    whole = whole and not now.unread
    return {
        UNREAD: now.unread,
        SEEN: now.seen if whole else "",
        SHOWN: now.ticket.shown,
        **({URL: now.ticket.url} if now.ticket.url else {}),
    }


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
