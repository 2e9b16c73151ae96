"""Remediation as the bot wires it: dispatcher, wake-ups, sweeper, ledger and cards in one process, on a volatile store."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from bot.app.action_runtime import ActionDependencies, ActionRuntime, open_action_runtime
from bot.app.diagnosis_runtime import WallClock
from bot.incidents.dispatch.dispatcher import Dispatcher
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import plan_timers
from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.settings import Settings, load_settings
from bot.store.store import Store
from graph.checkpoints.checkpoint import RedisSaver
from graph.incident.incident_graph import IncidentTurns
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin
from tests.support.clock import PATIENCE
from tests.support.fakes_actions import ANN, CHANNEL, TEAM, Office, PeopleOfList, Site, Wall, well
from tests.support.fakes_graph import fact
from tests.support.inventories import inventory
from tools.ledger.record import ActionRecord
from tools.ledger.states import State

LOOPBACK = inventory(hosts={name: {"address": "127.0.0.1"} for name in ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")})


class Watched(Wall):
    """Cards with a wait for each kind of update."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = asyncio.Condition()

    def _show(self, what: str, record: ActionRecord) -> None:
        super()._show(what, record)
        self._task = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        async with self.moved:
            self.moved.notify_all()

    async def until(self, what: str) -> str:
        """Return the approval id of the first update that starts with `what`."""
        async with asyncio.timeout(PATIENCE), self.moved:
            await self.moved.wait_for(lambda: any(said.startswith(what) for said, _ in self.news))
        return next(approval for said, approval in self.news if said.startswith(what))


class Silent:
    """A report publisher that only keeps the texts."""

    def __init__(self) -> None:
        self.replies: list[str] = []

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        self.replies.append(report.reply or report.headline)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with FakeAsyncRedis() as redis:
        yield Store(redis, "memory", None)


def settings(folder: Path, **more: str) -> Settings:
    return load_settings(None, {"RACKMEDIC_DATA_DIR": str(folder), **more})


class Bot:
    """The whole bot except Slack."""

    def __init__(self, store: Store, site: Site, wall: Watched, given: Settings) -> None:
        self.store, self.site, self.wall, self.settings = store, site, wall, given
        self.ports = replace(Office(store.redis, site, rows=LOOPBACK).ports, clock=WallClock())
        self.inbox = Inbox(store.redis, WallClock())
        self.board = Silent()
        self.wakeups = LocalWakeups()

    def acting(self, rows: Any = None) -> Any:
        ports = replace(self.ports, inventory=rows) if rows else self.ports
        self.turns = turns = IncidentTurns(RedisSaver(self.store.redis), ports)
        self.shown: list[str] = []

        def show(ledger: Any, rights: Any, warning: str) -> Watched:
            self.shown.append(warning)
            return self.wall

        needs = ActionDependencies(
            self.settings,
            self.store,
            self.site,
            ports,
            state_of=turns.load_state,
            inbox=self.inbox,
            people=PeopleOfList(),
            show=show,
            wake=self.wakeups.wake,
            wakeups=LocalWakeups(),
        )
        return open_action_runtime(needs)

    async def work(self, acting: ActionRuntime) -> None:
        """Start processing."""
        leases = Leases(self.store.redis, WallClock())
        assert acting.actions
        observers = {"report": self.board.publish_report, "remediation": acting.actions.schedule_after_turn}
        desk = Dispatcher(self.inbox, leases, self.turns, observers, clock=WallClock(), timers=plan_timers)
        await self.wakeups.start(desk.process_incident)

    async def mention(self) -> str:
        origin = Origin(kind="slack", team=TEAM, channel=CHANNEL, thread_ts="1.0", user="EVE")
        now = WallClock().now()
        received = await self.inbox.open_or_join(
            origin, "m", lambda incident: InboxItem(id="m", kind="mention", incident=incident, at=now, user="EVE", text="n1 is slow")
        )
        await self.wakeups.wake(received.incident)
        return received.incident


def slow_site() -> Site:
    site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"))
    site.sick(fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3"))
    return site


async def test_a_mention_becomes_a_card_and_a_click_a_proven_fix(store: Store, tmp_path: Path) -> None:
    site, wall = slow_site(), Watched()
    bot = Bot(store, site, wall, settings(tmp_path, RACKMEDIC_ALLOW_NON_DURABLE_LEDGER="true"))
    async with bot.acting() as acting:
        await bot.work(acting)
        incident = await bot.mention()
        approval = await wall.until("card")
        assert "may forget" in bot.shown[0]
        seen = await acting.ledger.get_record(approval)
        assert seen.terms.approvers == {"T1:ANN", "T1:BOB", "T1:CID"}
        await acting.decisions.cast_vote(approval, seen.digest, ANN, "approve", delivery="click")
        assert await wall.until("outcome passes_now") == approval
        await bot.wakeups.wait_until_idle()
        assert site.counts() == {"reset_clocks": 1}
        assert (await bot.turns.load_state(incident))["lifecycle"] == "watching"
        assert any("re-check at" in reply for reply in bot.board.replies)
        await bot.wakeups.aclose()


async def test_on_a_store_that_forgets_nothing_runs_unless_that_is_accepted(store: Store, tmp_path: Path) -> None:
    site, wall = slow_site(), Watched()
    bot = Bot(store, site, wall, settings(tmp_path))
    async with bot.acting() as acting:
        await bot.work(acting)
        await bot.mention()
        approval = await wall.until("card")
        seen = await acting.ledger.get_record(approval)
        await acting.decisions.cast_vote(approval, seen.digest, ANN, "approve", delivery="click")
        await wall.until("held This Redis may lose")
        assert (await acting.ledger.get_record(approval)).state is State.APPROVED
        assert site.effects == []
        await bot.wakeups.aclose()


async def test_accepting_it_helps_no_host_beyond_loopback(store: Store, tmp_path: Path) -> None:
    site, wall = slow_site(), Watched()
    bot = Bot(store, site, wall, settings(tmp_path, RACKMEDIC_ALLOW_NON_DURABLE_LEDGER="true"))
    async with bot.acting(inventory()) as acting:
        await bot.work(acting)
        await bot.mention()
        approval = await wall.until("card")
        seen = await acting.ledger.get_record(approval)
        await acting.decisions.cast_vote(approval, seen.digest, ANN, "approve", delivery="click")
        await wall.until("held This Redis may lose")
        assert site.effects == []
        await bot.wakeups.aclose()
