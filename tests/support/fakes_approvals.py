"""Approvals end to end: Slack sandbox, real ledger and cards, and a minimal driver."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from fakeredis import FakeAsyncRedis

from bot.incidents.context import HandlerContext
from bot.policy.approvals import ApprovalRights
from bot.remediation.action_cards import ActionCards
from bot.remediation.approval_card_data import ApprovalCardSources
from bot.remediation.approval_decisions import ApprovalDecisions, ApprovalServices, CannotPropose, VoteVerdict
from bot.slack.posted_messages import PostedCards
from deploy.sandbox.slack.app.socket_mode import SocketDelivery
from graph.state import IncidentState
from tests.support.clock import SetClock
from tests.support.fakes_bot import BOUND, OPS, TEAM, Behind, living_messages, slack_side
from tests.support.fakes_ledger import BOOT, CATALOGUE, KEY, POLICY, action
from tools.action import Action, new_approval_id
from tools.evidence import MemoryEvidence
from tools.execution.build import ActionRequest, HostIdentity, build_action
from tools.execution.conditions import ConditionResult
from tools.execution.delete_preview import DeletePreview, OldFile
from tools.inventory.inventory import Host, Inventory
from tools.ledger.headroom import BrakeHeadroom, compute_headroom
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, ApprovalTerms, VoteResult
from tools.ledger.refusals import NotAnApprover, NotFound, Refused
from tools.ledger.states import State, Transition
from tools.remedies.remedy import BadArgument

APPROVERS = frozenset({f"{TEAM}:U0PRIYA", f"{TEAM}:U0ANTON"})
HOST = Host(name="gpu-017", address="gpu-017")
INVENTORY = Inventory(hosts={HOST.name: HOST}, groups={"h100": (HOST.name,)}, channels=tuple(BOUND.values()))


@dataclass
class SmallDriver(ApprovalDecisions):
    """Decisions on the real ledger, without graph or hosts."""

    ledger: Ledger
    cards: ActionCards
    rights: ApprovalRights
    host_answers: asyncio.Event  # set unless a test delays the host's answer
    breaks: bool = False  # raise a bug after the vote is stored

    def __post_init__(self) -> None:
        self._ledger = self.ledger
        self._rights = self.rights

    async def _entitled(self, record: ActionRecord, person: str) -> None:
        await self.rights.require_full_member(person)
        if person not in await self.rights.list_record_approvers(record):
            raise NotAnApprover

    async def cast_vote(
        self, approval: str, digest: str, person: str, verdict: VoteVerdict, *, delivery: str, reason: str = ""
    ) -> ActionRecord:
        await self._entitled(await self.ledger.get_record(approval), person)
        return self._unbroken(await self.ledger.vote(approval, digest, person, verdict, delivery, reason))

    def _unbroken(self, record: ActionRecord) -> ActionRecord:
        if self.breaks:
            raise ZeroDivisionError("a bug")
        return record

    async def approve_actions(self, each: Sequence[tuple[str, str]], person: str, *, delivery: str) -> list[VoteResult]:
        await self._entitled(await self.ledger.get_record(each[0][0]), person)
        return [await self._each(approval, digest, person, f"{delivery}.{approval}") for approval, digest in each]

    async def _each(self, approval: str, digest: str, person: str, delivery: str) -> VoteResult:
        try:
            return VoteResult(approval, await self.ledger.vote(approval, digest, person, "approve", delivery))
        except NotFound as error:
            return VoteResult(approval, None, error)
        except Refused as error:
            return VoteResult(approval, await self.ledger.get_record(approval), error)

    async def propose_again(self, approval: str, digest: str, person: str) -> ActionRecord:
        old = await self.ledger.get_record(approval)
        return await self.propose(replace(old.action, approval=new_approval_id()), old.terms)

    async def edit_action(self, approval: str, digest: str, person: str, args: Mapping[str, str]) -> ActionRecord:
        await self.host_answers.wait()
        old = await self.ledger.get_record(approval)
        if args["bdf"].endswith("ff:00.0"):
            raise BadArgument(f"bdf={args['bdf']!r}: gpu-017 shows no such bdf")
        wanted = ActionRequest(old.action.remedy, args, old.action.incident, old.action.proves, old.action.devices, person)
        new = build_action(wanted, HOST, HOST, HostIdentity(BOOT), policy=POLICY, catalogue=CATALOGUE)
        await self.ledger.end_action(approval, Transition.SUPERSEDE, person, "edited")
        return self._unbroken(await self.propose(new, old.terms))

    async def revoke_action(self, approval: str, digest: str, person: str, reason: str) -> ActionRecord:
        return await self.ledger.end_action(approval, Transition.REVOKE, person, reason)

    async def resolve_unknown_outcome(self, approval: str, digest: str, person: str, ran: bool, note: str) -> ActionRecord:
        await self._entitled(await self.ledger.get_record(approval), person)
        return await self.ledger.reconcile(approval, person, ran, note)

    async def get_change_allowance(self, incidents: Sequence[str]) -> BrakeHeadroom:
        return await compute_headroom(self.ledger, INVENTORY.groups, incidents)

    async def propose_return(self, incident: str, remediation: str, person: str) -> ActionRecord:
        """Return an action unless the fault is gone (`remediation` "gone")."""
        await self.host_answers.wait()
        if remediation != "gone":
            raise CannotPropose("It cannot be proposed now: the fault is there: Xid 119 on gpu3.")
        return await self.ledger.get_record((await self.ledger.list_incident_records(incident))[0].approval)

    async def propose(self, wanted: Action, terms: ApprovalTerms) -> ActionRecord:
        record = await self.ledger.propose(wanted, terms)
        await self.cards.post_approval_card(record, IncidentState())
        return record


@dataclass
class Ward:
    """An operators' thread with an action to decide."""

    bot: Behind
    ledger: Ledger
    cards: ActionCards
    driver: SmallDriver
    evidence: MemoryEvidence
    clock: SetClock
    incident: str = ""
    thread: str = ""

    async def opened(self) -> None:
        self.thread = await self.bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs on gpu-017")
        await self.bot.settled()
        self.incident = await self.bot.inbox.find_incident(TEAM, OPS, self.thread) or ""

    async def ask(self, wanted: Action | None = None, **terms: Any) -> ActionRecord:
        """Post an approval card in the thread."""
        made = replace(wanted or action(), incident=self.incident)
        return await self.driver.propose(
            made, ApprovalTerms(**{"approvers": APPROVERS, "quorum": 1, "group": "h100", "group_size": 100, **terms})
        )

    async def click(self, user: str, card: Mapping[str, Any], button: str) -> SocketDelivery:
        delivery = await self.bot.slack.click(user, str(card["ts"]), button)
        await self.bot.settled()
        return delivery

    async def state(self, record: ActionRecord) -> State:
        return (await self.ledger.get_record(record.approval)).state

    def said(self) -> list[dict[str, Any]]:
        return [message for message in self.bot.slack.thread(OPS, self.thread) if message.get("bot_id")]

    def card(self, record: ActionRecord) -> dict[str, Any]:
        [found] = [
            m for m in self.said() if (m.get("metadata") or {}).get("event_payload") == {"approval": record.approval, "what": "card"}
        ]
        return found

    def whispered(self, user: str) -> str:
        return " ".join(str(message["text"]) for message in self.bot.slack.whispers(user))

    async def dump(self) -> dict[bytes, Any]:
        """Return the ledger's keys and values, to prove that nothing changed."""
        redis: Any = self.bot.redis
        reads = {b"string": redis.get, b"hash": redis.hgetall, b"set": redis.smembers, b"list": lambda k: redis.lrange(k, 0, -1)}
        reads[b"zset"] = lambda k: redis.zrange(k, 0, -1, withscores=True)
        return {key: await reads[await redis.type(key)](key) for key in sorted(await redis.keys("rm:ledger:*"))}


async def seen(wanted: Action) -> list[ConditionResult]:
    """Return a dry run in which all preconditions hold."""
    return [ConditionResult(condition.says, True, "") for condition in wanted.conditions]


async def goes(wanted: Action) -> DeletePreview | None:
    """Return a cleanup's preview."""
    return DeletePreview(3, 3 << 30, (OldFile("/tmp/forgotten.pt", 2 << 30, "train", 6000),)) if wanted.remedy == "cleanup" else None


@asynccontextmanager
async def ward(warning: str = "", ack_timeout_seconds: float = 2.0) -> AsyncIterator[Ward]:
    """Open an operators' incident with approvals."""
    made: list[SmallDriver] = []
    clock, evidence = SetClock(), MemoryEvidence()

    def dress(context: HandlerContext, redis: FakeAsyncRedis) -> HandlerContext:
        ledger = Ledger(redis, KEY, clock)
        rights = ApprovalRights(context.people, INVENTORY, (), context.inbox.get_origin)
        sources = ApprovalCardSources(
            ledger.get_record,
            ledger.list_incident_records,
            context.inbox.get_origin,
            context.channel_bindings,
            rights.get_mention_group,
            evidence,
            clock,
            dry_run=seen,
            would_delete=goes,
            warning=warning,
        )
        posted = PostedCards(redis)
        living = living_messages(context.client, redis, context.people, context.inbox.get_origin, clock, context.tasks)
        cards = ActionCards(context.client, posted, context.people, sources, living)
        made.append(SmallDriver(ledger, cards, rights, asyncio.Event()))
        made[0].host_answers.set()
        return replace(
            context,
            approvals=ApprovalServices(made[0], ledger, cards, ack_timeout_seconds=ack_timeout_seconds),
        )

    async with slack_side(dress) as bot:
        place = Ward(bot, made[0].ledger, made[0].cards, made[0], evidence, clock)
        await place.opened()
        yield place
