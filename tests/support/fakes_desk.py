"""Doubles for the dispatcher: turns that keep the contract over a real LangGraph, and a board that records."""

import asyncio
import operator
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, TurnObserver
from bot.incidents.dispatch.inbox import DUE_WORK
from bot.refusal import TooEarly
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.checkpoints.checkpoint import RedisSaver, has_pending_tasks
from graph.context import Progress
from graph.report import Report
from graph.state import InboxItem, InboxItemKind, IncidentState, Origin
from tests.support.clock import T0

NODES = ("summarise", "plan", "execute", "reflect", "conclude")
# called with the name of the point a turn has reached; may wait, raise or kill
Point = Callable[[str], Awaitable[None]]


def item(incident: str, id_: str = "T.C.1", kind: InboxItemKind = "mention", text: str = "job hangs") -> InboxItem:
    return InboxItem(id=id_, kind=kind, incident=incident, at=T0, text=text)


def origin(thread_ts: str = "1.0") -> Origin:
    return Origin(kind="slack", team="T", channel="C", thread_ts=thread_ts, user="U1")


async def straight_on(point: str) -> None:
    await asyncio.sleep(0)


async def with_work(redis: Redis) -> list[str]:
    """Return the incidents with a non-empty inbox."""
    rows = [row.decode().split(" ", 1) for row in await to_coroutine(redis.zrange(RedisKeys().due, 0, -1))]
    return [incident for incident, why in rows if why == DUE_WORK]


class Tale(TypedDict, total=False):
    id: str
    item: dict[str, Any]
    done_items: Annotated[list[str], operator.add]
    lifecycle: str
    visits: Annotated[list[str], operator.add]
    report: dict[str, Any]


class PointedSaver(RedisSaver):
    """Call `NODE:stored` after a node's writes are stored and before its checkpoint."""

    def __init__(self, redis: Redis, at: Point) -> None:
        super().__init__(redis)
        self._at = at

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if told := checkpoint["channel_values"].get("visits"):
            await self._at(f"{told[-1].rpartition('/')[2]}:stored")
        return await super().aput(config, checkpoint, metadata, new_versions)


class TinyTurns:
    """A turn as the dispatcher sees it: five empty nodes over the real saver."""

    def __init__(self, redis: Redis, at: Point = straight_on) -> None:
        self.saver = PointedSaver(redis, at)
        self._at = at
        self.graph = self._build()

    def _build(self) -> Any:
        graph: Any = StateGraph(Tale)
        for name in NODES:
            graph.add_node(name, self._node(name))
        for before, after in zip((START, *NODES), (*NODES, END), strict=True):
            graph.add_edge(before, after)
        return graph.compile(checkpointer=self.saver)

    def _node(self, name: str) -> Callable[[Tale], Awaitable[Tale]]:
        async def node(state: Tale) -> Tale:
            await self._at(f"{name}:begin")
            now = InboxItem.model_validate(state["item"])
            update: Tale = {"visits": [f"{now.id}/{name}"]}
            if name == "conclude":
                update["report"] = Report(item=now.id, outcome="diagnosed", headline=now.text).model_dump(mode="json")
                update["done_items"] = [now.id]
                update["lifecycle"] = "closed" if now.kind == "close" else "open"
            await self._at(f"{name}:end")
            return update

        return node

    async def run_turn(self, item: InboxItem, origin: Origin | None) -> Report:
        config = {"configurable": {"thread_id": item.incident}}
        state = await self.graph.aget_state(config)
        if has_pending_tasks(state):
            await self.graph.ainvoke(None, config, durability="sync")
            state = await self.graph.aget_state(config)
        if item.id not in state.values.get("done_items", []):
            await self.graph.ainvoke({"id": item.incident, "item": item.model_dump(mode="json")}, config, durability="sync")
            state = await self.graph.aget_state(config)
        return Report.model_validate(state.values["report"])

    async def load_state(self, incident: str) -> IncidentState:
        return cast(IncidentState, (await self.graph.aget_state({"configurable": {"thread_id": incident}})).values)

    async def abandon_turn(self, item: InboxItem) -> None:
        await self.graph.aupdate_state({"configurable": {"thread_id": item.incident}}, None, as_node=END)

    async def prune_thread(self, incident: str, keep: timedelta | None) -> None:
        await self.saver.aprune([incident])
        if keep is not None:
            await self.saver.expire(incident, int(keep.total_seconds()))


@dataclass
class BoardOfList:
    """A board that posts into a list. `asked` counts calls; a report is posted once per item, as the contract requires."""

    posts: list[tuple[str, Report]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    news: list[Progress] = field(default_factory=list)
    broken: int = 0  # number of coming posts that fail
    early: int = 0  # number of coming posts that are too early

    async def publish_progress(self, p: Progress) -> None:
        self.news.append(p)

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        self.asked.append(report.item)
        if self.broken:
            self.broken -= 1
            raise ConnectionResetError("Slack is away")
        if self.early:
            self.early -= 1
            raise TooEarly("Slack takes no edit now")
        if report.item not in {posted.item for _, posted in self.posts}:
            self.posts.append((incident, report))

    @property
    def observers(self) -> Mapping[str, TurnObserver]:
        return {REPORT_OBSERVER: self.publish_report}

    @property
    def posted(self) -> list[str]:
        return [report.item for _, report in self.posts]
