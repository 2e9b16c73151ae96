"""A ticket that names only a job gets its hosts from the scheduler, limited to those the place may see."""

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from graph.context import GraphContext
from graph.incident.summarise import summarise
from graph.state import Origin
from tests.graph.test_nodes import state
from tests.support.fakes_graph import World, item
from tools.inventory.job_lookup import JobHosts


class Scheduler:
    """A scheduler that knows job 4711."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, job: str) -> JobHosts:
        self.asked.append(job)
        return JobHosts(("n2", "n3", "elsewhere")) if job == "4711" else JobHosts(why="not_known")


async def hosts(text: str, scheduler: Scheduler, **more: Any) -> tuple[str, ...]:
    ports: GraphContext = replace(World().ports(), job_place=scheduler)
    update = await summarise(state(item(text), **more), runtime=Runtime(context=ports))
    return tuple(update["brief"]["hosts"])


async def test_the_jobs_hosts_are_meant_where_no_host_is_named() -> None:
    assert await hosts("job 4711 hangs", Scheduler()) == ("n2", "n3")


async def test_named_hosts_come_before_the_jobs() -> None:
    scheduler = Scheduler()
    assert await hosts("job 4711 hangs on n1", scheduler) == ("n1",)
    assert not scheduler.asked


async def test_an_unknown_job_changes_nothing() -> None:
    assert await hosts("job 99 hangs", Scheduler()) == ()


async def test_a_tenants_ticket_never_learns_of_other_hosts() -> None:
    origin = Origin(kind="slack", channel="C9", tenant="acme").model_dump(mode="json")
    assert await hosts("job 4711 hangs", Scheduler(), origin=origin) == ()
