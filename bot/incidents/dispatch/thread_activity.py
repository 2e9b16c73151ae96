"""Activity of an incident's thread: who spoke last, whether our question is open, recent answers.

A redelivered message reads the same and counts once; by Slack's timestamps the later message wins. The hash expires
with its incident.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, cast

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.dialogue.addressed import PreviousSpeaker
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import REMINDER_DUE, IncidentState, Lifecycle
from tools.clock import Clock

SELF_AUTHOR: Final = "-"  # RackMedic, in place of a user id
ANSWER_WINDOW: Final = timedelta(minutes=5)
MAX_ANSWERS_PER_WINDOW: Final = 60  # of one thread; several people who work on a real incident stay below
# Longest mute after too many answers: until half of them are available again.
MAX_MUTE_DURATION: Final = ANSWER_WINDOW / 2
SILENT_ITEM_KINDS: Final = frozenset({"ask", "timer", "action_result"})  # their turns may end without a message

# Let the activity expire with its closed incident.
_SYNC_EXPIRY_LUA = """
local function stay(hash, pulse)
  local left = redis.call('PTTL', hash)
  if left > 0 then redis.call('PEXPIRE', pulse, left) end
end
"""

# KEYS: incident hash, activity. ARGV: ts, user, whether it is a question. Returns the state before. The speaker is
# recorded even for a late message: our own may have overtaken it, and an incident must not close over a person's
# message.
RECORD_MESSAGE_SCRIPT = (
    _SYNC_EXPIRY_LUA
    + """
local hash, pulse = unpack(KEYS)
local ts, user, question = unpack(ARGV)
local last, by, asked, questioned, was, quiet, who = unpack(redis.call('HMGET', pulse, 'ts', 'by', 'asked', 'question', 'was', 'quiet', 'who'))
local life = redis.call('HGET', hash, 'lifecycle') or ''
local before = (by or '') .. ' ' .. (asked or '0') .. ' ' .. (questioned or '0')
local others = {}
for id in string.gmatch(who or '', '%S+') do
  if id ~= user then others[#others + 1] = id end
end
who = table.concat(others, ' ')
if last == ts then return {was, quiet or '', life, who} end
if not last or last < ts then
  if asked == '1' and by ~= '-' and by ~= user then asked = '0' end
  redis.call('HSET', pulse, 'ts', ts, 'by', user, 'asked', asked or '0', 'question', question, 'was', before)
end
redis.call('HSET', pulse, 'who', user .. ' ' .. table.concat(others, ' ', 1, math.min(#others, 7)))
stay(hash, pulse)
return {before, quiet or '', life, who}
"""
)

# The same KEYS. ARGV: ts (empty: nothing was posted), whether it asks something, until when to be quiet (epoch seconds,
# or empty).
RECORD_REPLY_SCRIPT = (
    _SYNC_EXPIRY_LUA
    + """
local hash, pulse = unpack(KEYS)
local ts, asked, quiet = unpack(ARGV)
local last = redis.call('HGET', pulse, 'ts')
if ts ~= '' and (not last or last < ts) then redis.call('HSET', pulse, 'ts', ts, 'by', '-', 'asked', asked, 'question', asked) end
if quiet ~= '' then redis.call('HSET', pulse, 'quiet', quiet) else redis.call('HDEL', pulse, 'quiet') end
stay(hash, pulse)
return 1
"""
)

# The same KEYS. ARGV: ts, now, answers per window, window in seconds, then whether it is always answered, mentions us,
# and is from the only person in the thread. Once tripped, half of the answers must be available again. Until then the
# limit is announced again to the first mention, and each time to a person alone with us, for whom silence would say
# nothing.
ADMIT_ANSWER_SCRIPT = (
    _SYNC_EXPIRY_LUA
    + """
local hash, pulse = unpack(KEYS)
local ts, now, most, window = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local always, mention, alone = ARGV[5] == '1', ARGV[6] == '1', ARGV[7] == '1'
local paid, verdict, left, at, tripped, told = unpack(redis.call('HMGET', pulse, 'paid', 'verdict', 'left', 'at', 'tripped', 'told'))
if paid == ts then return verdict end
left = math.min(most, (tonumber(left) or most) + math.max(0, now - (tonumber(at) or now)) * most / window)
local silent = tripped == '1' and left < most / 2
verdict = 'go'
if left >= 1 and not silent then
  left, tripped = left - 1, '0'
elseif not always then
  verdict = (alone or not silent or (mention and told ~= '1')) and 'trip' or 'silent'
  if mention then told = '1' elseif not silent then told = '0' end
  tripped = '1'
end
redis.call('HSET', pulse, 'paid', ts, 'verdict', verdict, 'left', tostring(left), 'at', tostring(now))
redis.call('HSET', pulse, 'tripped', tripped or '0', 'told', told or '0')
stay(hash, pulse)
return verdict
"""
)


class AnswerPermit(StrEnum):
    """Whether a message is answered: GO answers it, TRIP only says that the limit is reached, SILENT does nothing."""

    GO = "go"
    TRIP = "trip"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class PreviousActivity:
    """A thread's state before a message."""

    follows: PreviousSpeaker = "nobody"
    asked: bool = False  # our question was the last message, apart from those of the same person since
    after_question: bool = False  # the last message was a question
    quiet_until: datetime | None = None
    lifecycle: Lifecycle | None = None
    others: tuple[str, ...] = ()  # other users who spoke lately


class ThreadActivity:
    """Records who writes in a thread. `max_answers` limits our answers per ANSWER_WINDOW."""

    def __init__(self, redis: Redis, clock: Clock, *, max_answers: int = MAX_ANSWERS_PER_WINDOW, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._max_answers = max_answers
        self._keys = keys or RedisKeys()
        self._record_message, self._record_reply, self._admit_answer = (
            redis.register_script(script) for script in (RECORD_MESSAGE_SCRIPT, RECORD_REPLY_SCRIPT, ADMIT_ANSWER_SCRIPT)
        )

    async def record_message(self, incident: str, ts: str, user: str, *, question: bool = False) -> PreviousActivity:
        """Record a person's message. Return the state of the thread before it."""
        answer = await self._record_message(keys=self._get_keys(incident), args=[ts, user, int(question)])
        last_message, quiet, lifecycle, others = [field.decode() for field in answer]
        author, asked, was_question = last_message.split(" ")
        return PreviousActivity(
            follows=_name_previous_speaker(author, user),
            asked=asked == "1" and author in (SELF_AUTHOR, user),
            after_question=was_question == "1",
            quiet_until=datetime.fromtimestamp(float(quiet), UTC) if quiet else None,
            lifecycle=cast(Lifecycle, lifecycle) if lifecycle else None,
            others=tuple(others.split()),
        )

    async def has_human_messages(self, incident: str) -> bool:
        return bool(await to_coroutine(self._redis.hget(self._keys.incident_key(incident, "pulse"), "who")))

    async def get_last_message_time(self, incident: str) -> datetime | None:
        """Return when a person or RackMedic last wrote."""
        raw = await to_coroutine(self._redis.hget(self._keys.incident_key(incident, "pulse"), "ts"))
        return datetime.fromtimestamp(float(raw), UTC) if raw else None

    async def record_reply(self, incident: str, ts: str, *, asked: bool = False, quiet_until: datetime | None = None) -> None:
        """Record a message of ours. Without `ts` record only the quiet period."""
        quiet = str(int(quiet_until.timestamp())) if quiet_until else ""
        await self._record_reply(keys=self._get_keys(incident), args=[ts, int(asked), quiet])

    async def record_report(self, incident: str, state: IncidentState, report: Report) -> None:
        """Record a turn's report as our message. Its time is after the item's, as our clock may be behind Slack's."""
        view = IncidentView(state)
        item = view.item
        is_reminder = item.kind == "timer" and item.data.get("why") == REMINDER_DUE and bool(report.questions)
        may_be_silent = item.kind in SILENT_ITEM_KINDS and not view.is_timer_recheck
        is_silent = may_be_silent and not report.reply and not is_reminder
        ts = f"{max(self._clock.now(), item.at).timestamp() + 0.000001:.6f}"
        asked = bool(report.questions) and not report.reply
        await self.record_reply(incident, "" if is_silent else ts, asked=asked, quiet_until=view.quiet_until)

    async def record_ignored_reply(self, incident: str, ts: str) -> bool:
        """Return whether `ts` is the first ignored message of a window. A repeated call for a message returns the same."""
        key, now = self._keys.incident_key(incident, "pulse"), self._clock.now().timestamp()
        stored = cast(bytes | None, await to_coroutine(self._redis.hget(key, "passed"))) or b""
        first_ts, _, at = stored.decode().partition(" ")
        if first_ts and now - float(at) < ANSWER_WINDOW.total_seconds():
            return first_ts == ts
        await to_coroutine(self._redis.hset(key, "passed", f"{ts} {now:.3f}"))
        return True

    async def admit_answer(
        self, incident: str, ts: str, *, always: bool = False, mention: bool = False, alone: bool = False
    ) -> AnswerPermit:
        """Return whether message `ts` gets an answer. A repeated call for a message returns the same.

        Args:
            incident: the thread's incident.
            ts: Slack's timestamp of the message.
            always: answer despite the limit.
            mention: the message mentions us.
            alone: no other person wrote in the thread.
        """
        now = f"{self._clock.now().timestamp():.3f}"
        args: list[str | int] = [ts, now, self._max_answers, int(ANSWER_WINDOW.total_seconds()), int(always), int(mention), int(alone)]
        return AnswerPermit((await self._admit_answer(keys=self._get_keys(incident), args=args)).decode())

    def _get_keys(self, incident: str) -> list[str]:
        return [self._keys.incident_key(incident), self._keys.incident_key(incident, "pulse")]


def _name_previous_speaker(previous: str, user: str) -> PreviousSpeaker:
    if previous == SELF_AUTHOR:
        return "us"
    if previous == user:
        return "self"
    return "person" if previous else "nobody"
