"""Invariant I27 as stories: nothing of one tenant reaches another, and identity comes only from the payload. Each goes
straight to a situation in which a bug would show; the bugs are in `tests.properties.mutants_customers`, stories that
need Slack in `tests.properties.customer_threads`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from bot.policy.channels import NotAllowed, Person, parse_person, require_colleague
from bot.remediation.approval_buttons import Voter, parse_voter
from bot.tenants.leak_detector import LeakDetector
from graph.dialogue.read import parse_message
from graph.dialogue.said import Vocabulary
from graph.incident.visibility import build_host_scope, list_visible_hosts, map_visible_names
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, Origin, TenantThread
from tests.properties import customer_files, test_wider_look
from tests.support.inventories import inventory
from tools.inventory.job_lookup import SlurmJobFinder
from tools.transport import CommandResult

OURS, THEIRS = ("gpu-017", "gpu-018"), ("gpu-019", "gpu-020")
SITE = inventory(
    groups={
        "acme": {"hosts": "gpu-[017-018]", "tenant": "acme", "controller": "ctl"},
        "globex": {"hosts": "gpu-[019-020]", "tenant": "globex", "controller": "ctl"},
        "ctl": {"hosts": "ctl"},
    },
    hosts={
        "gpu-017": {"alias": "train-01"},
        "gpu-018": {"alias": "train-02"},
        "gpu-019": {"alias": "train-01"},
        "gpu-020": {"alias": "big-20"},
    },
    channels=[
        {"channel": "C0OPS", "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": "C0ACME", "kind": "tenant", "tenant": "acme", "internal": "C0OPS"},
    ],
)
REPORTED = Origin(
    kind="slack",
    team="T1",
    channel="C0OPS",
    thread_ts="1.0",
    tenant="acme",
    customer=TenantThread(team="T1", channel="C0ACME", thread_ts="2.0", user="U0CARLA"),
)
AT = datetime(2026, 5, 20, tzinfo=UTC)


def message(text: str, **data: str) -> InboxItem:
    """Return a stored reply in the incident."""
    said = parse_message(text, Vocabulary(hosts={name: name for name in (*OURS, *THEIRS)}), AT)
    return InboxItem(id="i", kind="reply", incident="inc-1", at=AT, text=text, data={**said.build_item_data(), **data})


async def i27_scope() -> None:
    """Which hosts a place may show, and who may name further ones."""
    assert list_visible_hosts(SITE, REPORTED) == OURS
    assert list_visible_hosts(SITE, Origin(kind="slack", channel="C0ACME")) == OURS
    half = SITE.model_copy(update={"channels": (SITE.channels[0], SITE.channels[1].model_copy(update={"groups": ("half",)}))})
    half = half.model_copy(update={"groups": {**SITE.groups, "half": OURS[:1]}})
    assert list_visible_hosts(half, REPORTED) == OURS[:1], "a channel speaks of its groups"
    names = map_visible_names(SITE, (*OURS, *THEIRS))
    assert "train-01" not in names, "what two customers call theirs means neither"
    assert map_visible_names(SITE, OURS)["train-01"] == "gpu-017"
    theirs = build_host_scope(SITE, REPORTED, message("look at gpu-019 too", **{SIDE_KEY: TENANT_SIDE}), ())
    assert theirs.hosts == OURS
    ours = build_host_scope(SITE, REPORTED, message("look at gpu-019 too"), ())
    assert ours.hosts == (*OURS, "gpu-019")
    later = build_host_scope(SITE, REPORTED, message("and now?", **{SIDE_KEY: TENANT_SIDE}), ("gpu-019",))
    assert not {*later.names.values()} & {*THEIRS}


class Controller:
    """Slurm on a host that knows one job, the other tenant's."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked.append(f"{host}: {' '.join(argv)}")
        if "scontrol" not in argv:
            return CommandResult(b"")
        if "4712" in argv:
            return CommandResult(b"JobId=4712 JobName=x UserId=u(1) JobState=RUNNING NodeList=gpu-019\n")
        return CommandResult(b"", b"slurm_load_jobs error: Invalid job id specified\n", 1)

    async def aclose(self) -> None: ...


async def i27_jobs() -> None:
    """Another tenant's job and a missing job get the same commands and the same answer."""
    asked: list[list[str]] = []
    for job in ("4712", "9999"):
        controller = Controller()
        await SlurmJobFinder(controller, SITE).find_job_hosts(job, lambda hosts: bool({*hosts} & {*OURS}))
        asked.append([argv.replace(job, "JOB") for argv in controller.asked])
    assert asked[0] == asked[1]
    await test_wider_look.test_a_job_of_bs_and_a_job_of_nobodys_get_the_same_words()


async def i27_words() -> None:
    """An operator's text for a tenant names no other tenant, in any spelling."""
    told = LeakDetector(SITE, "acme")
    for words in ("globex has it too", "it was gpu-020", "see big-20", "gpu-[018-019] are back", "gpu-0\u200b19 is back"):
        assert told.find_leaks(words), words
    assert not told.find_leaks("gpu-[017-018], your train-01, work again")


async def i27_who() -> None:
    """Identity is the payload's user and workspace; doubt denies."""
    click = {"user": {"id": "U0PRIYA", "team_id": "T0GLOBEX"}, "team": {"id": "T0RACK"}}
    assert parse_voter(click) == Voter("T0GLOBEX", "U0PRIYA")
    stranger = parse_person({"id": "U1", "team_id": "T0RACK", "deleted": False, "is_bot": False})
    assert not stranger.human
    with suppress(NotAllowed):
        require_colleague(Person("U1", "T0GLOBEX", human=True), "T0RACK")
        raise AssertionError("somebody of another workspace is a colleague")


Story = Callable[[], Coroutine[Any, Any, None]]
STORIES: tuple[Story, ...] = (i27_scope, i27_jobs, i27_words, i27_who, *customer_files.STORIES)


def complaint(story: Story) -> str:
    """Return the story's complaint about the product, or ""."""
    try:
        asyncio.run(story())
    except (Exception, pytest.fail.Exception) as error:  # any exception is a complaint
        return f"{type(error).__name__}: {error}"
    return ""
