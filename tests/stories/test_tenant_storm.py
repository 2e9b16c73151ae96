"""Two hundred simultaneous reports of one tenant, with the real bot and Redis: each is stored at its first delivery and
answered by one card, and another tenant's first card waits for no more of them than the quota allows.
"""

import os
from pathlib import Path

from redis.asyncio import Redis

from deploy.sandbox.demo import run_bot
from tests.bench.perf.tenants import LIVING, REPORT, WAITS, first_card, shown, stored, storm, two_customers
from tests.support.clock import PATIENCE
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
STORM_EVENTS = 200
QUOTA = {"incidents": 2, "mentions_per_hour": 4}


async def test_storm_of_one_tenant_is_stored_and_delays_another_tenant_by_its_quota_at_most(
    tmp_path: Path, durable_server: RealServer
) -> None:
    async with (
        two_customers(tmp_path, durable_server.url, {"tenants": {"acme": QUOTA}}) as world,
        run_bot(world, dict(os.environ), tmp_path / "bot.log"),
        Redis(unix_socket_path=str(durable_server.socket)) as redis,
    ):
        slack = world.slack
        await slack.connected()
        slack.hub.patience.ack = PATIENCE  # a busy test machine may acknowledge late
        slack.api.rates.set("*", None)
        threads = await storm(world, STORM_EVENTS)
        other_tenants_card = await first_card(world, 1)
        await slack.quiet()
        assert await stored(redis, threads) == STORM_EVENTS
        assert not slack.hub.counts["timeouts"], "Slack delivered no event a second time"
        assert other_tenants_card.ahead[REPORT] <= QUOTA["mentions_per_hour"]
        await slack.wait_for(lambda: all(shown(world, threads, LIVING).values()))
        assert set(shown(world, threads, LIVING).values()) == {1}
        assert max(shown(world, threads, WAITS).values()) == 1
