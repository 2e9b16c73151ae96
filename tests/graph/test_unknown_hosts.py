"""Unknown host names are reported and never replaced by another host; a command means exactly the hosts it names."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.dialogue.intents import Intent
from graph.dialogue.said import OTHERS, ParsedMessage
from graph.extraction.hosts import find_hosts
from graph.extraction.report_texts import UNKNOWN_JOB_SENTENCES, format_report_unknowns, format_unknown_job
from graph.incident.answers.item_answers import NOTHING_CHECKED_TEXT
from graph.incident.conclude import NO_HOST_CHECKED_TEXT
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.model.reasoner import ReportExtraction
from graph.report import Report
from graph.state import Attachment, InboxItem, IncidentState, Origin
from tests.support.fakes_graph import DESYNC, LOST, FakeFleet, FakeModel, World, fact, healthy, instead, item
from tests.support.inventories import inventory
from tools.fact import Fact
from tools.inventory.inventory import Inventory
from tools.inventory.job_lookup import JobHosts, NoHostsReason

FLEET = tuple(f"gpu-{n:03}" for n in range(1, 9))
LOST_ON_3 = fact("gpu-003", "dmesg", "kernel.xid", 79, "gpu3")


@pytest.mark.parametrize(
    ("text", "hosts", "unknown"),
    [
        ("gpu-099 hangs", (), ("gpu-099",)),
        ("gpu003 hangs", (), ("gpu003",)),
        ("gpu-003.other.example.com hangs", (), ("gpu-003.other.example.com",)),
        ("gpu-003.cluster.local hangs", ("gpu-003",), ()),
        ("see gpu-003.log.gz", ("gpu-003",), ()),
        ("gpu-[003-0010] hang", (), ("gpu-[003-0010]",)),
        ("they hang on gpu-[003-005].", ("gpu-003", "gpu-004", "gpu-005"), ()),
        ("gup-003 and gpu-002", ("gpu-002",), ("gup-003",)),
        ("node-117 hangs", (), ("node-117",)),
        ("GPU 3, gpu3 and gpu-12 of 16, step-0400, rank-003, sm-90, cuda-12", (), ("gpu-12",)),
    ],
)
def test_unknown_names_are_separated_from_known_ones(text: str, hosts: tuple[str, ...], unknown: tuple[str, ...]) -> None:
    named = find_hosts(text, FLEET, domains=())
    assert (named.hosts, named.unknown) == (hosts, unknown)


def test_a_full_name_is_ours_where_its_domain_is() -> None:
    named = find_hosts("gpu-003.dc1.example and gpu-004.dc2.example", FLEET, domains=("dc1.example",))
    assert (named.hosts, named.unknown) == (("gpu-003",), ("gpu-004.dc2.example",))


@pytest.mark.parametrize(
    ("text", "hosts", "read_as", "unknown"),
    [
        ("gpu_003 hangs", ("gpu-003",), (("gpu_003", "gpu-003"),), ()),
        ("gpu003 hangs", ("gpu-003",), (("gpu003", "gpu-003"),), ()),
        ("GPU_003 hangs", ("gpu-003",), (("GPU_003", "gpu-003"),), ()),
        ("gpu3 box hangs", ("gpu-003",), (("gpu3", "gpu-003"),), ()),
        ("node gpu_3 hangs", (), (), ()),
        ("gpu001-gpu003 hang", ("gpu-001", "gpu-002", "gpu-003"), tuple((f"gpu00{n}", f"gpu-00{n}") for n in (1, 2, 3)), ()),
        ("gpu_001 to gpu_002 hang", ("gpu-001", "gpu-002"), (("gpu_001", "gpu-001"), ("gpu_002", "gpu-002")), ()),
        ("gpu-003.dc1.example.com hangs", ("gpu-003",), (("gpu-003.dc1.example.com", "gpu-003"),), ()),
        ("instance=gpu-003.dc1.example.com:9400", ("gpu-003",), (("gpu-003.dc1.example.com", "gpu-003"),), ()),
        ('{instance="gpu-003.dc1.example.com:9400"} fires', ("gpu-003",), (("gpu-003.dc1.example.com", "gpu-003"),), ()),
        ("instance=gpu-003:9400", ("gpu-003",), (), ()),
        ("gpu19 hangs, gpu-003 too", ("gpu-003",), (), ("gpu19",)),
        ("gup-003 hangs", (), (), ("gup-003",)),
        ("gpu-099 hangs", (), (), ("gpu-099",)),
        ("gpu_099 hangs", (), (), ("gpu_099",)),
        ("gpu3 of gpu-002 hangs", ("gpu-002",), (), ()),
        ("GPU 3, gpu3 and gpu7", (), (), ()),
    ],
)
def test_a_name_with_other_separators_is_read_and_said(
    text: str, hosts: tuple[str, ...], read_as: tuple[tuple[str, str], ...], unknown: tuple[str, ...]
) -> None:
    named = find_hosts(text, FLEET, domains=(), lenient=True)
    assert (named.hosts, named.read_as, named.unknown) == (hosts, read_as, unknown)
    strict = find_hosts(text, FLEET, domains=())
    assert strict.read_as == ()
    assert set(strict.hosts).isdisjoint(host for _, host in read_as)


def test_a_name_that_two_hosts_may_have_is_read_as_neither() -> None:
    named = find_hosts("gpu_003 hangs", ("gpu-003", "gpu-03"), domains=(), lenient=True)
    assert (named.hosts, named.unknown) == ((), ("gpu_003",))
    racks = ("b200-r7-01", "b200-r70-1")
    assert find_hosts("b200_r7_01 hangs", racks, domains=(), lenient=True).hosts == ("b200-r7-01",)


def test_a_full_name_of_another_domain_is_not_read_as_ours() -> None:
    named = find_hosts("gpu-004.dc2.example hangs", FLEET, domains=("dc1.example",), lenient=True)
    assert (named.hosts, named.unknown) == ((), ("gpu-004.dc2.example",))


@dataclass
class Thread:
    """An incident in a fleet of eight hosts with a scheduler that knows some jobs."""

    sick: Sequence[Fact] = (LOST_ON_3,)
    jobs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    site: Inventory | None = None
    nowhere: NoHostsReason = "not_known"
    model: FakeModel | None = None

    def __post_init__(self) -> None:
        self.world = World(fleet=FakeFleet(instead(healthy(*FLEET), *self.sick)), hosts="gpu-[001-008]", model=self.model)
        self.graph = build_incident_graph(InMemorySaver())
        self.origin: Origin | None = None
        self.count = 0

    async def _place_of(self, job: str) -> JobHosts:
        return JobHosts(self.jobs[job]) if job in self.jobs else JobHosts(why=self.nowhere)

    async def say(self, text: str, kind: str = "", **more: object) -> Report:
        self.world.fleet.asked.clear()
        self.count += 1
        ports = replace(self.world.ports(), job_place=self._place_of)
        ports = replace(ports, inventory=self.site) if self.site else ports
        given: InboxItem = item(text, kind or ("mention" if self.count == 1 else "reply"), id=f"i{self.count}", **more)  # type: ignore[arg-type]
        return await run_turn(self.graph, ports, given, self.origin)

    @property
    def looked_at(self) -> set[str]:
        return {ask.host for ask in self.world.fleet.asked}

    async def state(self) -> IncidentState:
        return (await self.graph.aget_state({"configurable": {"thread_id": "inc-1"}})).values  # type: ignore[return-value]

    async def hosts(self) -> tuple[str, ...]:
        return tuple((await self.state())["brief"]["hosts"])


async def test_an_unknown_host_is_said_and_no_other_is_looked_at() -> None:
    thread = Thread()
    report = await thread.say("gpu-099 hangs")
    assert (report.outcome, report.root_causes, thread.looked_at) == ("abstained", (), set())
    assert "gpu-099 (did you mean gpu-008, gpu-007 or gpu-006?)" in report.headline
    assert report.headline.endswith(NO_HOST_CHECKED_TEXT)
    [asked] = report.questions
    assert "gpu-099" in asked
    assert [row.name for row in report.unknown_hosts] == ["gpu-099"]
    assert (await thread.state())["lifecycle"] == "waiting"


async def test_asking_again_without_a_known_host_never_becomes_a_ticket() -> None:
    thread = Thread()
    await thread.say("gpu-099 hangs")
    report = await thread.say("since 02:40")
    assert (report.outcome, thread.looked_at) == ("abstained", set())
    assert "gpu-099" in report.headline
    report = await thread.say("gpu-098")
    assert "gpu-098" in report.reply
    assert (await thread.state()).get("ticket") is None


async def test_the_host_that_was_meant_is_looked_at_once_it_is_named() -> None:
    thread = Thread()
    await thread.say("gup-003 hangs")
    report = await thread.say("hosts gpu-003", data={"hosts": "gpu-003"})
    assert [(row.label, row.hosts) for row in report.root_causes] == [(LOST, ("gpu-003",))]
    assert (thread.looked_at, report.unknown_hosts) == ({"gpu-003"}, ())


async def test_a_host_with_other_separators_is_looked_at_and_it_is_said_how_it_was_read() -> None:
    thread = Thread()
    report = await thread.say("gpu_003 hangs")
    assert (thread.looked_at >= {"gpu-003"}, report.unknown_hosts) == (True, ())
    assert [row.label for row in report.root_causes] == [LOST]
    assert "I read gpu_003 as gpu-003." in format_report_unknowns(report)


async def test_a_host_that_is_called_fine_is_not_accused() -> None:
    thread = Thread(sick=(LOST_ON_3, fact("gpu-005", "dmesg", "kernel.xid", 79, "gpu3")))
    report = await thread.say("gpu-005 is fine but gpu-003 hangs")
    assert await thread.hosts() == ("gpu-003",)
    assert report.root_causes[0].hosts[0] == "gpu-003"


async def test_of_a_range_the_known_part_is_looked_at_and_the_rest_named() -> None:
    thread = Thread(sick=())
    report = await thread.say("gpu-006 bis gpu-010 hang")
    assert thread.looked_at == {"gpu-006", "gpu-007", "gpu-008"}
    assert [row.name for row in report.unknown_hosts] == ["gpu-009", "gpu-010"]


async def test_of_known_and_unknown_hosts_the_known_ones_alone_are_looked_at() -> None:
    thread = Thread()
    report = await thread.say("gpu-001 and gpu-099 hang")
    assert (thread.looked_at, [row.name for row in report.unknown_hosts]) == ({"gpu-001"}, ["gpu-099"])
    assert report.root_causes == ()


async def test_a_model_does_not_guess_where_people_named_an_unknown_host() -> None:
    thread = Thread(model=FakeModel(guess=ReportExtraction(hosts=("gpu-003",))))
    await thread.say("gpu-099 hangs")
    assert (thread.looked_at, await thread.hosts()) == (set(), ())


async def test_a_log_is_read_though_the_host_is_unknown() -> None:
    log = Attachment(name="rank0.log", text="joblog: job.error rank7 collective_desync")
    thread = Thread()
    report = await thread.say("gpu-099 hangs", attachments=(log,))
    assert ([row.label for row in report.root_causes], thread.looked_at) == ([DESYNC], set())


async def test_another_tenants_host_reads_like_one_that_does_not_exist() -> None:
    site = inventory(
        groups={"a": {"hosts": "gpu-[001-004]", "tenant": "acme"}, "b": {"hosts": "gpu-[005-008]", "tenant": "blue"}},
        channels=[{"channel": "C1", "kind": "tenant", "tenant": "acme"}],
    )
    origin = Origin(kind="slack", channel="C1", tenant="acme")
    said = []
    for name in ("gpu-007", "gpu-009"):
        thread = Thread(site=site)
        thread.origin = origin
        report = await thread.say(f"{name} hangs")
        assert thread.looked_at == set()
        assert not {host for row in report.unknown_hosts for host in row.nearest} & {"gpu-005", "gpu-006", "gpu-007", "gpu-008"}
        said.append(report.headline.replace(name, "X"))
    assert said[0] == said[1]


async def test_recheck_looks_at_the_hosts_that_it_names_only() -> None:
    thread = Thread()
    await thread.say("gpu-001 and gpu-003 are odd")
    report = await thread.say("recheck gpu-003", "recheck", data={"hosts": "gpu-003"})
    assert thread.looked_at == {"gpu-003"}
    assert [row.label for row in report.root_causes] == [LOST]
    assert await thread.hosts() == ("gpu-001", "gpu-003")
    await thread.say("recheck", "recheck")
    assert thread.looked_at >= {"gpu-001", "gpu-003"}


async def test_recheck_of_an_unknown_host_looks_at_nothing_and_changes_nothing() -> None:
    thread = Thread()
    before = await thread.say("gpu-003 is odd")
    stood = await thread.state()
    report = await thread.say("recheck gpu-099", "recheck", data={"hosts": "gpu-099"})
    assert "gpu-099 (did you mean " in report.reply
    assert report.reply.endswith(NOTHING_CHECKED_TEXT)
    assert (thread.looked_at, report.root_causes) == (set(), before.root_causes)
    now = await thread.state()
    assert [now[name] for name in ("brief", "lifecycle", "hypotheses", "facts")] == [
        stood[name] for name in ("brief", "lifecycle", "hypotheses", "facts")
    ]


async def test_hosts_narrows_and_widens_to_what_it_names() -> None:
    thread = Thread(sick=())
    await thread.say("gpu-001, gpu-002 and gpu-003 are slow")
    await thread.say("hosts gpu-002", data={"hosts": "gpu-002"})
    assert (thread.looked_at, await thread.hosts()) == ({"gpu-002"}, ("gpu-002",))
    await thread.say("hosts gpu-[002-004]", data={"hosts": "gpu-[002-004]"})
    assert (thread.looked_at, await thread.hosts()) == ({"gpu-002", "gpu-003", "gpu-004"}, ("gpu-002", "gpu-003", "gpu-004"))


async def test_unknown_hosts_replace_nothing() -> None:
    thread = Thread()
    await thread.say("gpu-003 is odd")
    report = await thread.say("hosts gpu-[003-0010]", data={"hosts": "gpu-[003-0010]"})
    assert "gpu-[003-0010] (did you mean gpu-[003-008]?) cannot be read" in report.reply
    assert (thread.looked_at, await thread.hosts()) == (set(), ("gpu-003",))


async def test_an_unknown_job_replaces_nothing_and_is_reported() -> None:
    thread = Thread(jobs={"4711": ("gpu-002", "gpu-003")})
    await thread.say("job 4711 hangs")
    report = await thread.say("job 9999", data={"job": "9999"})
    assert report.reply == f"{format_unknown_job('9999', 'not_known')} {NOTHING_CHECKED_TEXT}"
    assert (thread.looked_at, await thread.hosts(), (await thread.state())["brief"]["job"]) == (set(), ("gpu-002", "gpu-003"), "4711")
    report = await thread.say("does job 9999 hang too?")
    assert (report.unknown_job, (await thread.state())["brief"]["job"]) == ("9999", "4711")


def slurm() -> Inventory:
    """Return the fleet with a controller."""
    return inventory(groups={"g": {"hosts": "gpu-[001-008]", "controller": "ctl"}, "ctl": {"hosts": "ctl"}}, channels=[])


@pytest.mark.parametrize("text", ["job 9999 hangs", "all is slow since 02:40, job 9999 too"])
async def test_a_first_mention_of_a_job_alone_that_no_scheduler_can_place_looks_at_nothing_and_asks(text: str) -> None:
    thread = Thread(site=slurm(), jobs={"4711": ("gpu-003",)}, model=FakeModel(guess=ReportExtraction(hosts=("gpu-003",))))
    report = await thread.say(text)
    assert (report.outcome, report.root_causes, thread.looked_at) == ("abstained", (), set())
    assert report.headline == f"{format_unknown_job('9999', 'not_known')} {NO_HOST_CHECKED_TEXT}"
    [asked] = report.questions
    assert "9999" in asked
    assert (report.unknown_job, (await thread.state())["lifecycle"]) == ("9999", "waiting")
    report = await thread.say("it began at 02:40")
    assert (thread.looked_at, report.unknown_job) == (set(), "9999")
    report = await thread.say("on gpu-003")
    assert [row.label for row in report.root_causes] == [LOST]
    assert (report.unknown_job, (await thread.state())["brief"]["job"]) == ("", "9999")


@pytest.mark.parametrize("why", ["could_not", "accounting_off", "no_hosts"])
async def test_a_job_that_slurm_does_not_know_and_a_slurm_that_was_not_asked_are_different_answers(why: NoHostsReason) -> None:
    thread = Thread(site=slurm(), nowhere=why)
    assert (await thread.say("job 9999 hangs")).headline == f"{format_unknown_job('9999', why)} {NO_HOST_CHECKED_TEXT}"


async def test_a_job_on_hosts_of_others_is_said_to_be_on_none_of_ours() -> None:
    thread = Thread(site=slurm(), jobs={"9999": ("theirs-1",)})
    report = await thread.say("job 9999 hangs")
    assert report.headline == f"{format_unknown_job('9999', 'other_hosts')} {NO_HOST_CHECKED_TEXT}"


def test_every_reason_has_its_sentence() -> None:
    assert set(UNKNOWN_JOB_SENTENCES) == set(get_args(NoHostsReason))
    assert len(set(UNKNOWN_JOB_SENTENCES.values())) == len(UNKNOWN_JOB_SENTENCES), "not found and could not look are different answers"
    assert "could not" in UNKNOWN_JOB_SENTENCES["could_not"]


async def test_a_job_that_became_known_is_looked_at_on_the_next_request() -> None:
    thread = Thread(site=slurm())
    await thread.say("job 4711 hangs")
    thread.jobs["4711"] = ("gpu-003",)
    report = await thread.say("recheck", "recheck")
    assert ([row.label for row in report.root_causes], thread.looked_at >= {"gpu-003"}) == ([LOST], True)


async def test_the_log_of_a_job_without_known_hosts_is_read() -> None:
    log = Attachment(name="rank0.log", text="joblog: job.error rank7 collective_desync")
    thread = Thread(site=slurm())
    report = await thread.say("job 9999 hangs", attachments=(log,))
    assert ([row.label for row in report.root_causes], thread.looked_at) == ([DESYNC], set())


async def test_where_no_scheduler_can_be_asked_a_job_alone_means_the_small_fleet() -> None:
    thread = Thread()
    report = await thread.say("job 9999 hangs")
    assert ([row.label for row in report.root_causes], report.unknown_job) == ([LOST], "")


async def test_a_job_that_is_known_replaces_the_hosts() -> None:
    thread = Thread(jobs={"4711": ("gpu-001",), "4712": ("gpu-003", "gpu-004")})
    await thread.say("job 4711 hangs")
    report = await thread.say("job 4712", data={"job": "4712"})
    assert (await thread.hosts(), (await thread.state())["brief"]["job"]) == (("gpu-003", "gpu-004"), "4712")
    assert [row.label for row in report.root_causes] == [LOST]


GROUPED = inventory(groups={"train": {"hosts": "gpu-[001-003]"}, "infer-a": {"hosts": "gpu-[004-008]"}}, channels=[])
TRAIN, INFER = {"gpu-001", "gpu-002", "gpu-003"}, {f"gpu-{n:03}" for n in range(4, 9)}


@pytest.mark.parametrize("words", ["train", "@train", "Train", "`train`"])
async def test_a_group_is_named_where_hosts_are(words: str) -> None:
    thread = Thread(site=GROUPED)
    await thread.say("gpu-005 is odd")
    report = await thread.say(f"recheck {words}", "recheck", data={"hosts": words})
    assert (thread.looked_at, [row.label for row in report.root_causes], await thread.hosts()) == (TRAIN, [LOST], ("gpu-005",))
    await thread.say(f"hosts {words}", data={"hosts": words})
    assert (thread.looked_at, set(await thread.hosts())) == (TRAIN, TRAIN)
    await thread.say("hosts infer-a, gpu-001", data={"hosts": "infer-a, gpu-001"})
    assert set(await thread.hosts()) == {*INFER, "gpu-001"}


@pytest.mark.parametrize(("kind", "words"), [("recheck", "trian"), ("reply", "trian"), ("recheck", "@tarin"), ("reply", "gpu-001,trian")])
async def test_an_unknown_group_is_reported_with_the_nearest(kind: str, words: str) -> None:
    thread = Thread(site=GROUPED)
    await thread.say("gpu-005 is odd")
    report = await thread.say(words, kind, data={"hosts": words})
    assert "(did you mean train?)" in (report.reply or str(report.unknown_hosts)) or report.unknown_hosts[0].nearest == ("train",)
    assert thread.looked_at <= {"gpu-001"}


async def test_a_group_of_another_name_altogether_is_not_in_the_inventory_and_words_are_no_groups() -> None:
    thread = Thread(site=GROUPED)
    await thread.say("gpu-003 is odd")
    report = await thread.say("hosts storage", data={"hosts": "storage"})
    assert "storage" in report.reply
    assert report.reply.endswith(NOTHING_CHECKED_TEXT)
    assert thread.looked_at == set()
    await thread.say("recheck now", "recheck", data={"hosts": "now"})
    assert thread.looked_at >= {"gpu-003"}
    report = await thread.say("hosts unreachable", data={"hosts": "unreachable"})
    assert report.unknown_hosts == ()


async def test_the_group_that_was_meant_may_be_answered_alone() -> None:
    thread = Thread(site=GROUPED)
    await thread.say("gpu-099 hangs")
    report = await thread.say("train")
    assert (thread.looked_at >= TRAIN, [row.label for row in report.root_causes]) == (True, [LOST])


async def test_a_tenant_learns_of_no_other_group() -> None:
    site = inventory(
        groups={"train": {"hosts": "gpu-[001-004]", "tenant": "acme"}, "blue": {"hosts": "gpu-[005-008]", "tenant": "blue"}},
        channels=[{"channel": "C1", "kind": "tenant", "tenant": "acme"}],
    )
    thread = Thread(site=site)
    thread.origin = Origin(kind="slack", channel="C1", tenant="acme")
    await thread.say("gpu-001 is odd")
    replies = set()
    for word in ("blue", "bleu"):
        report = await thread.say(f"hosts {word}", data={"hosts": word})
        assert report.reply.endswith(NOTHING_CHECKED_TEXT)
        replies.add(report.reply.replace(word, "NAME"))
    assert len(replies) == 1, "a name that exists is refused like one that does not"


async def test_looking_at_more_hosts_forgets_none_and_looks_at_those_alone() -> None:
    thread = Thread(sick=())
    await thread.say("gpu-001 and gpu-002 are slow")
    await thread.say("check gpu-004 too", data={"hosts": "gpu-004", "wider": True})
    assert (thread.looked_at, await thread.hosts()) == ({"gpu-004"}, ("gpu-001", "gpu-002", "gpu-004"))
    rest = ParsedMessage(intent=Intent.WIDEN, text="and the rest too", group=OTHERS)
    await thread.say(rest.text, data=rest.build_item_data())
    assert thread.looked_at == {f"gpu-{number:03}" for number in range(1, 9)}
