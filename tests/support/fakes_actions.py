"""A small site for remedies: hosts with the node kit's protocol, a Slurm controller, machines that recover or not.
`Site` is the outside world and survives; `Office` is one RackMedic process on a Redis and may be killed at any
point.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis

from bot.incidents.dispatch.cause_ownership import CauseOwnership
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.policy.approvals import ApprovalRights, ApproverTable, EmptyOnCallSchedule
from bot.policy.channels import Person
from bot.remediation.action_callbacks import ActionStartAnnouncer, ContactLossNotifier
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionRunner, EventDelivery
from bot.remediation.action_runtime import ActionWorker
from bot.remediation.approval_decisions import ApprovalDecisions
from bot.remediation.proposer import Proposer
from bot.remediation.reconciler import RemediationReconciler
from bot.remediation.wave_scheduler import WaitingRemediationLookup
from bot.store.keys import ACTION_KEYS, RedisKeys
from graph.checkpoints.checkpoint import RedisSaver
from graph.context import GraphContext, IncidentTimeouts, find_no_other_owners
from graph.execution.action_effects import ActionGraphContext
from graph.execution.action_graph import ActionThreads
from graph.execution.verification import ActionVerifier
from graph.incident.incident_graph import IncidentTurns
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import T0, SetClock
from tests.support.fakes_graph import CHECKS as EVERYDAY
from tests.support.fakes_graph import FakeFleet, FakeHistory, Killed, check, clue, fact, healthy, leaf
from tests.support.inventories import inventory
from tools.checks.check_types import Check
from tools.evidence import EvidenceStore, MemoryEvidence
from tools.execution.build import compute_catalogue_hash
from tools.execution.kit import get_current_kit_version
from tools.fact import Fact, Status
from tools.fleet.answers import AnswerCallback, CheckRequest, FleetAnswers
from tools.inventory.inventory import Inventory
from tools.inventory.job_lookup import JobHosts
from tools.inventory.sku import Sku
from tools.ledger.brakes import Brakes
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord
from tools.transport import CommandResult, Unreachable

KEY = b"a key that only these tests know"
TEAM, GROUP, CHANNEL = "T1", "S0APPROVE", "C0OPS"
ANN, BOB, CID = "T1:ANN", "T1:BOB", "T1:CID"
BDF = {"gpu0": "0000:19:00.0", "gpu3": "0000:5d:00.0", "gpu5": "0000:bb:00.0"}

HUNG, BROKEN, SLOW, ORPHAN, FABRIC, LOOSE = (
    "GPU.EXECUTION.Hung",
    "GPU.MEMORY.Broken",
    "GPU.CONFIG.Slow",
    "SYSTEM_SOFTWARE.PROCESS.Orphan",
    "SYSTEM_SOFTWARE.FABRIC.Down",
    "INTERCONNECT.IB.Loose",
)
CHECKS: Mapping[str, Check] = {
    **EVERYDAY,
    **{
        row.id: row
        for row in (
            check(
                "smi", "gpu.count", "gpu.bdf", "gpu.remap.failure", "gpu.throttle.applications_clocks", "gpu.throttle.hw_thermal", seconds=3
            ),
            check("procs", "proc.orphan", "proc.gpu_memory"),
            check("sysd", "service.state"),
        )
    },
}
TAXONOMY = Taxonomy(
    {
        row.label: row
        for row in (
            leaf(
                HUNG,
                "gpu",
                clue("xid", "kernel.xid", "value == 119", 9, decisive=True, says="Xid 119 on {device}"),
                remedies=("drain_node > gpu_reset", "drain_node > reboot", "drain_node > escalate_rma"),
            ),
            leaf(
                BROKEN,
                "gpu",
                clue("failure", "gpu.remap.failure", "value == true", 9, decisive=True),
                remedies=("drain_node > escalate_rma",),
            ),
            leaf(
                SLOW,
                "gpu",
                clue("low", "gpu.throttle.applications_clocks", "value == true", 9, decisive=True),
                remedies=("reset_clocks", "drain_node > gpu_reset"),
            ),
            leaf(ORPHAN, "gpu", clue("orphan", "proc.orphan", "value > 1000", 9, decisive=True), remedies=("kill_gpu_process",)),
            leaf(
                FABRIC,
                "node",
                clue("down", "service.state", "value == 'failed'", 9, decisive=True),
                remedies=("drain_node > restart_fabricmanager",),
            ),
            leaf(LOOSE, "hca", clue("down", "ib.state", "value == 'Down'", 9, decisive=True), remedies=("escalate_cable",)),
        )
    },
    {"GPU": "GPU"},
)

Point = Callable[[str], None]


def nothing_happens(point: str) -> None: ...


class LivingFleet(FakeFleet):
    """A fleet whose answers follow the site's state."""

    def __init__(self, site: "Site") -> None:
        super().__init__()
        self.site = site
        self.forgotten: list[str] = []

    def forget_host(self, host: str) -> None:
        self.forgotten.append(host)

    async def run_checks(
        self,
        incident: str,
        asks: Sequence[CheckRequest],
        on_answer: AnswerCallback | None = None,
        *,
        fresh: bool = False,
        permitted: bool = False,
    ) -> FleetAnswers:
        self.site.at("look")
        self.facts = [row if row.key.startswith("kernel.") else replace(row, time=self.site.clock.now()) for row in self.site.facts]
        self.dark = dict.fromkeys(self.site.silent, "no route to host")
        return await super().run_checks(incident, asks, on_answer, fresh=fresh)


@dataclass
class Site:
    """Hosts, controller and their faults. `mends`: effective remedies."""

    clock: SetClock = field(default_factory=SetClock)
    facts: list[Fact] = field(default_factory=list)
    mends: set[str] = field(default_factory=lambda: {"gpu_reset", "reset_clocks", "kill_gpu_process", "restart_fabricmanager", "reboot"})
    slurm: dict[str, str] = field(default_factory=dict)
    # a node's full state with flags, if the plain state hides something
    whole: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)  # hosts whose jobs continue after a drain
    job_hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # hosts of a job according to the scheduler
    boots: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    ticks: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    refuses: dict[str, str] = field(default_factory=dict)  # remedy and the kit precondition's refusal
    fails: dict[str, int] = field(default_factory=dict)
    records: dict[tuple[str, str], str] = field(default_factory=dict)
    effects: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    at: Point = nothing_happens

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        words = tuple(argv)
        self.asked.append((host, words))
        if host in self.silent:
            raise Unreachable(host, "no route to host")
        match words:
            case ("sudo", "-n", _, "start", digest, boot, remedy, *args):
                self.at("start:before")
                answer = self._start(host, digest, boot, remedy, tuple(args))
                self.at("start:after")
            case ("sudo", "-n", _, "settle", digest):
                answer = self.records.setdefault((host, digest), "never")
                self.at("settle:after")
            case ("sudo", "-n", _, "version"):
                answer = get_current_kit_version()
            case ("cat", "/proc/sys/kernel/random/boot_id"):
                answer = self.boot(host)
            case ("cat", path) if path.startswith("/proc/") and path.endswith("/stat"):
                return self._stat(path.split("/")[2])
            case _:
                answer = self._slurm(words)
        return CommandResult(f"{answer}\n".encode())

    def _slurm(self, words: tuple[str, ...]) -> str:
        match words:
            case ("sinfo", *_, node, "-o", "%T"):
                return self.slurm.get(node, "idle")
            case ("sinfo", *_, node, "-O", "StateLong:20,StateComplete:80"):
                return "\n".join(f"{state:<20}{self.whole.get(node, state):<80}" for state in self.slurm.get(node, "idle").split("\n"))
            case ("sinfo", *_, node, "-o", "%E"):
                return self.reasons.get(node, "none")
            case ("squeue", *_, job, "-o", "%T"):
                return self.jobs.get(job, "")
        raise AssertionError(f"nobody asks a host this: {words}")

    async def aclose(self) -> None:
        return None

    async def fingerprint(self, host: str) -> str:
        if host in self.silent:
            raise Unreachable(host, "no route to host")
        return self.keys.get(host, f"SHA256:{host}")

    def boot(self, host: str) -> str:
        return self.boots.setdefault(host, f"boot-of-{host}-0")

    def sick(self, *facts: Fact) -> None:
        """Replace what the hosts report."""
        gone = {(row.host, row.key, device) for row in facts for device in (row.device, None)}
        self.facts = [row for row in self.facts if (row.host, row.key, row.device) not in gone] + list(facts)

    def counts(self) -> Counter[str]:
        return Counter(remedy for _, remedy, _ in self.effects)

    def _start(self, host: str, digest: str, boot: str, remedy: str, args: tuple[str, ...]) -> str:
        if (host, digest) in self.records:
            return self.records[host, digest]
        if boot != self.boot(host):
            return "refused another boot"
        if remedy in self.refuses:
            self.records[host, digest] = f"refused {self.refuses[remedy]}"
            return self.records[host, digest]
        self.effects.append((host, remedy, args))
        self.records[host, digest] = f"done {self.fails.get(remedy, 0)}"
        if not self.fails.get(remedy):
            self._happens(host, remedy, args)
        return "started"

    def _happens(self, host: str, remedy: str, args: tuple[str, ...]) -> None:
        if remedy == "drain_node":
            self.slurm[args[0]] = "draining" if args[0] in self.busy else "drained"
            self.reasons[args[0]] = f"rackmedic:{args[1]}"
        elif remedy == "resume_node":
            self.slurm[args[0]] = "idle"
        elif remedy == "cancel_job":
            self.jobs.pop(args[0], None)
            self.busy.clear()
            self.slurm = {node: "drained" if state == "draining" else state for node, state in self.slurm.items()}
        elif remedy == "reboot":
            self.boots[host] = f"{self.boot(host)}-again"
        if remedy in self.mends:
            self._mend(host, args[0] if args else "")

    def _mend(self, host: str, bdf: str) -> None:
        """Remove the faults of this host or GPU; kernel log lines stay."""
        device = next((name for name, address in BDF.items() if address == bdf), None)
        kept: list[Fact] = []
        for row in self.facts:
            concerns = row.host == host and (device is None or row.device == device)
            if concerns and row.key in ("gpu.throttle.applications_clocks", "gpu.remap.failure"):
                row = replace(row, value=False)
            elif concerns and row.key == "service.state":
                row = replace(row, value="active")
            elif concerns and row.key == "proc.orphan":
                row = replace(row, value=None, status=Status.ABSENT)
            kept.append(row)
        self.facts = kept

    def _stat(self, pid: str) -> CommandResult:
        if pid not in self.ticks:
            return CommandResult(b"", f"cat: /proc/{pid}/stat: No such file or directory".encode(), 1)
        return CommandResult(f"{pid} (python (3) x) S {' '.join(['1'] * 18)} {self.ticks[pid]} 0 0\n".encode())


class PeopleOfList:
    def __init__(self) -> None:
        self.group = {"ANN", "BOB", "CID"}
        self.people = {name: Person(name, TEAM, name, True) for name in ("ANN", "BOB", "CID", "EVE")}
        self.people["BOT"] = Person("BOT", TEAM, "bot", False)
        self.forgotten: list[str] = []

    async def get_person(self, user: str) -> Person:
        return self.people.get(user, Person(user, "", "", False))

    async def list_approvers(self, group: str, team: str) -> frozenset[str]:
        return frozenset(f"{team}:{name}" for name in self.group) if group == GROUP else frozenset()

    async def list_members(self, group: str) -> frozenset[str]:
        return frozenset(self.group) if group == GROUP else frozenset()

    def refresh(self, *about: str) -> None:
        self.forgotten += about


@dataclass
class Wall:
    """Record cards instead of posting them."""

    cards: list[str] = field(default_factory=list)
    news: list[tuple[str, str]] = field(default_factory=list)
    away: bool = False

    def _show(self, what: str, record: ActionRecord) -> None:
        if self.away:
            raise ConnectionResetError("Slack is away")
        self.news.append((what, record.approval))

    async def post_approval_card(self, record: ActionRecord, incident_state: IncidentState) -> None:
        self._show("card", record)
        self.cards.append(record.approval)

    async def update_card(self, record: ActionRecord) -> None:
        self._show(f"changed {record.state.value}", record)

    async def post_outcome(self, record: ActionRecord) -> None:
        self._show(f"outcome {record.outcome or record.state.value}", record)

    async def list_known_rows(self, record: ActionRecord) -> Sequence[tuple[str, str]]:
        return ()

    async def post_reminder(self, record: ActionRecord) -> None:
        self._show("remind", record)

    async def show_wait_reason(self, record: ActionRecord, why: str) -> None:
        self._show(f"held {why}", record)

    async def show_contact_state(self, record: ActionRecord, says: str) -> None:
        self._show(f"contact {says}".rstrip(), record)


def well(*hosts: str) -> list[Fact]:
    rows = [row for row in healthy(*hosts) if row.key != "pcie.rev_ff"]
    for host in hosts:
        rows += [replace(fact(host, "lspci", "pcie.rev_ff", False, name), attrs={"bdf": address}) for name, address in BDF.items()]
        rows += [fact(host, "smi", "gpu.bdf", address, device) for device, address in BDF.items()]
        rows += [fact(host, "smi", "gpu.remap.failure", False, device) for device in BDF]
        rows += [fact(host, "smi", "gpu.throttle.applications_clocks", False, device) for device in BDF]
        rows += [Fact("procs", "proc.orphan", status=Status.ABSENT, host=host, time=T0)]
        rows += [fact(host, "sysd", "service.state", "active", "nvidia-fabricmanager")]
    return rows


def hung(host: str = "n1", device: str = "gpu3", minutes: float = -9, **more: Any) -> Fact:
    """Return an Xid 119 `minutes` from T0."""
    seen = replace(fact(host, "dmesg", "kernel.xid", 119, device), time=T0 + timedelta(minutes=minutes))
    return replace(
        seen, attrs={"first": seen.time.isoformat() if seen.time else "", "last": (T0 + timedelta(minutes=minutes)).isoformat()}, **more
    )


class Office:
    """One process: turns, driver, reconciler. `Office(redis, site)` again is another process on the same state."""

    def __init__(
        self,
        redis: Redis,
        site: Site,
        *,
        people: PeopleOfList | None = None,
        wall: Wall | None = None,
        evidence: EvidenceStore | None = None,
        rows: Inventory | None = None,
        taxonomy: Taxonomy = TAXONOMY,
        worker: str = "w1",
        brakes: Brakes | None = None,
        policy: str = "",
        waits: IncidentTimeouts | None = None,
        fallback: tuple[str, ...] = (),
        alone: bool = False,
        keys: tuple[bytes, ...] = (KEY,),
        approvers: ApproverTable | None = None,
    ) -> None:
        """`keys`: the ledger's, newest first. `alone`: incidents do not share findings, for tests where different
        causes lead to the same remediation.
        """
        self.redis = redis
        self.site = site
        self.worker = worker
        self.table = approvers or ApproverTable()
        self.clock = site.clock
        self.people = people or PeopleOfList()
        self.wall = wall or Wall()
        self.evidence: EvidenceStore = evidence or MemoryEvidence()
        self.inventory = rows or inventory()
        self.inbox = Inbox(redis, self.clock)
        self.fleet = LivingFleet(site)
        self.fleet.checks = CHECKS
        self.ledger = Ledger(redis, keys[0], self.clock, brakes=brakes, older_keys=keys[1:])
        self.ports = GraphContext(
            fleet=self.fleet,  # type: ignore[arg-type]  # the part of Fleet that is used
            inventory=self.inventory,
            taxonomy=taxonomy,
            history=FakeHistory(),
            evidence=self.evidence,
            clock=self.clock,
            skus={"small": Sku("small", "a small machine", ("H100*",), 8, expect={"gpu.count": 8, "nccl.busbw_max": 400.0})},
            waits=waits or IncidentTimeouts(),
            late=WaitingRemediationLookup(ActionIndex(redis, self.clock)),
            treated=ActionIndex(redis, self.clock).list_treatments,
            keep=find_no_other_owners if alone else CauseOwnership(redis, self.clock).claim_causes,
            keepers=find_no_other_owners if alone else CauseOwnership(redis, self.clock).list_owners,
        )
        self.turns = IncidentTurns(RedisSaver(redis), self.ports)
        self.woken: list[str] = []
        self._wire(policy, fallback)
        self._clicks = itertools.count()

    def _wire(self, policy: str, fallback: tuple[str, ...]) -> None:
        self.rights = ApprovalRights(self.people, self.inventory, fallback, self.inbox.get_origin, self.table, EmptyOnCallSchedule())
        self.acting = ActionGraphContext(
            reading=self.ports,
            ledger=self.ledger,
            transport=self.site,
            catalogue=compute_catalogue_hash(),
            policy=(lambda: policy) if policy else self.rights.get_policy_hash,
            authorised=self.rights.list_record_approvers,
            facts_of=self.facts_of,
            worker=self.worker,
            began=self._began,
            contact=ContactLossNotifier(self.ledger, self.wall),
            pause=self._pause,
            beat_seconds=0.05,
        )
        self.index = ActionIndex(self.redis, self.clock)
        self.threads = ActionThreads(RedisSaver(self.redis), self.acting)
        leases = Leases(self.redis, self.clock, owner=self.worker, keys=ACTION_KEYS)
        delivery = EventDelivery(self.inbox, self._wake, self.clock)
        self.driver = ActionRunner(
            self.ledger,
            self.threads,
            leases,
            self.index,
            delivery,
            self.wall,
            self.turns.load_state,
            self.rights.get_person_name,
            self.clock,
        )
        proposer = Proposer(self.site, self.inventory, self.rights, self.acting.catalogue, self.facts_of, self.place_of, self.clock)
        self.tender = RemediationReconciler(
            self.ledger,
            ActionVerifier(self.acting),
            leases,
            self.index,
            delivery,
            proposer,
            self.evidence,
            self.turns.load_state,
            self._wake,
            self.clock,
        )
        self.actions = ActionWorker(self.ledger, self.driver, self.tender, self.index, self._wake)
        self.decisions = ApprovalDecisions(
            self.ledger,
            self.tender,
            self.index,
            self.rights,
            delivery,
            self.site,
            self.facts_of,
            self.turns.load_state,
            self._wake,
        )

    async def _pause(self, seconds: float) -> None:
        self.clock.go(seconds=seconds)
        await asyncio.sleep(0)

    async def _began(self, approval: str) -> None:
        self.site.at("claimed")
        await ActionStartAnnouncer(self.ledger, self.wall)(approval)

    async def _wake(self, name: str) -> None:
        self.woken.append(name)

    async def place_of(self, job: str) -> JobHosts:
        return JobHosts(self.site.job_hosts.get(job, ()))

    async def facts_of(self, incident: str) -> list[Fact]:
        return await self.evidence.get_facts((await self.turns.load_state(incident)).get("facts", ""))

    async def mention(self, text: str = "job 4711 is slow on n1", thread: str = "1.0") -> str:
        """Report a problem, run the turn and reconcile its remediations."""
        origin = Origin(kind="slack", team=TEAM, channel=CHANNEL, thread_ts=thread, user="EVE")
        key = f"{TEAM}.{CHANNEL}.{thread}"
        received = await self.inbox.open_or_join(
            origin, key, lambda incident: InboxItem(id=key, kind="mention", incident=incident, at=self.clock.now(), user="EVE", text=text)
        )
        await self.turns_of(received.incident)
        await self.settle(received.incident)
        return received.incident

    async def say(self, incident: str, kind: Any, **more: Any) -> None:
        """Enqueue another item and settle."""
        name = f"say-{next(self._clicks)}-{self.clock.now().isoformat()}"
        await self.inbox.enqueue(InboxItem(id=name, kind=kind, incident=incident, at=self.clock.now(), user="EVE", **more), name)
        await self.settle(incident)

    async def turns_of(self, incident: str) -> list[Report]:
        """Run a turn for everything in the inbox, as the dispatcher does."""
        reports: list[Report] = []
        while items := await self.inbox.list_waiting(incident, 1):
            reports.append(await self.turns.run_turn(items[0], await self.inbox.get_origin(incident)))
            await self.redis.lpop(RedisKeys().incident_key(incident, "inbox"))  # the dispatcher does this under its lease
        return reports

    async def settle(self, incident: str) -> None:
        """Run turns, reconcile and run actions until the state stops changing."""
        for _ in range(12):
            before = await self._picture(incident)
            await self.turns_of(incident)
            await self.actions.reconcile_incident(incident)
            for row in await self.ledger.list_incident_records(incident):
                await self.actions.run_action(row.approval)
            if await self._picture(incident) == before and not await self.inbox.list_waiting(incident):
                return
        raise AssertionError("it never comes to rest")

    async def _picture(self, incident: str) -> Any:
        state = await self.turns.load_state(incident)
        return [(r.approval, r.state, len(r.votes), r.outcome) for r in await self.ledger.list_incident_records(incident)], state.get(
            "ladders"
        )

    async def pending(self, incident: str) -> list[ActionRecord]:
        return [row for row in await self.ledger.list_incident_records(incident) if row.state.value == "pending"]

    async def click(self, record: ActionRecord, who: str = ANN, verdict: Any = "approve", reason: str = "") -> ActionRecord:
        return await self.decisions.cast_vote(
            record.approval, record.digest, who, verdict, delivery=f"click-{self.worker}-{next(self._clicks)}", reason=reason
        )

    async def approve(self, incident: str, remedy: str, who: str = ANN) -> ActionRecord:
        """Approve the pending action of a remedy, and let everything settle."""
        (row,) = [row for row in await self.pending(incident) if row.action.remedy == remedy]
        await self.click(row, who)
        await self.settle(incident)
        return await self.ledger.get_record(row.approval)

    async def ladders(self, incident: str) -> list[dict[str, Any]]:
        return list((await self.turns.load_state(incident)).get("ladders", []))


class Plan:
    """Kill the process once, at the n-th visit of a point."""

    def __init__(self, point: str, times: int = 1) -> None:
        self.point = point
        self.left = times
        self.fired = False

    def __call__(self, point: str) -> None:
        if point == self.point and not self.fired:
            self.left -= 1
            if self.left == 0:
                self.fired = True
                raise Killed(point)


async def die(work: Awaitable[Any]) -> None:
    """Await work that must end in Killed."""
    try:
        await work
    except Killed:
        return
    raise AssertionError("it was to be killed and was not")
