"""An intake's refusal text is untrusted: it is stored and shown without secrets."""

import pytest
from aiohttp import web

from bot.provider.link import HttpProviderLink, LinkRefused, LinkUnavailable
from tests.support.clock import SetClock


@pytest.mark.parametrize(("status", "wrong"), [(422, LinkRefused), (503, LinkUnavailable)])
async def test_a_secret_in_an_answer_goes_no_further(status: int, wrong: type[Exception], unused_tcp_port: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"error": "the proxy wants password=hv-7tC4gMhp53n for hosts"}, status=status)

    app = web.Application()
    app.router.add_post("/intake/acme", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
        with pytest.raises(wrong) as refused:
            await HttpProviderLink(f"http://127.0.0.1:{unused_tcp_port}/intake/acme", b"k" * 32, SetClock()).send_ticket("msg_1", b"{}")
    finally:
        await runner.cleanup()
    assert str(refused.value) == f"the intake answers {status}: the proxy wants password=[redacted] for hosts"
