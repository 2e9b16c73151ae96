"""A look does not wait for unreachable hosts once all others answered, nor beyond the command time limit setting."""

import asyncio
from collections.abc import Sequence

from tests.support.clock import SetClock
from tests.tools.test_fleet import COUNT, HOSTS, LOUD
from tools.evidence import MemoryEvidence
from tools.fact import Status
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import CheckLimits, Fleet
from tools.transport import AccessBarrier, CommandResult, Unreachable


class Half:
    """A transport on which the `silent` hosts never answer. `let_in`: those of them that accept a connection; `limits`:
    time limit of each command.
    """

    clock = "virtual"

    def __init__(self, *silent: str, let_in: tuple[str, ...] = ()) -> None:
        self._silent, self._open = silent, let_in
        self.go_on, self.all_asked = asyncio.Event(), asyncio.Event()
        self.limits: list[float] = []

    def reached(self, host: str) -> bool:
        return host not in self._silent or host in self._open

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.limits.append(timeout)
        if len(self.limits) == len(ASKS):
            self.all_asked.set()
        if host in self._silent:
            await self.go_on.wait()
        return CommandResult(b"8")

    async def aclose(self) -> None: ...


def fleet(transport: Half, silent: float = 0.01, command: float = 30.0) -> Fleet:
    return Fleet(transport, HOSTS, {"smi": COUNT}, MemoryEvidence(), SetClock(), limits=CheckLimits(command, silent))


ASKS = [CheckRequest(host, "smi") for host in ("n1", "n2", "n3")]


async def test_a_host_that_accepts_no_connection_is_silent_once_all_others_answered() -> None:
    wave = await fleet(Half("n2")).run_checks("i", ASKS)
    facts = {fact.host: fact for fact in wave.facts}
    assert (facts["n1"].value, facts["n3"].value) == (8, 8)
    assert (facts["n2"].status, facts["n2"].attrs["barrier"]) == (Status.TIMEOUT, AccessBarrier.SILENT.value)


async def test_one_that_let_us_in_is_waited_for_however_long_it_takes() -> None:
    transport = Half("n2", let_in=("n2",))
    look = asyncio.ensure_future(fleet(transport, silent=0.0).run_checks("i", ASKS))
    await transport.all_asked.wait()
    transport.go_on.set()
    assert [fact.value for fact in (await look).facts] == [8, 8, 8]


async def test_without_any_answer_the_transport_reports_the_reason() -> None:
    transport = Half("n1", "n2", "n3")
    look = asyncio.ensure_future(fleet(transport, silent=0.0).run_checks("i", ASKS))
    await transport.all_asked.wait()
    transport.go_on.set()
    assert [fact.value for fact in (await look).facts] == [8, 8, 8]


async def test_a_command_takes_no_longer_than_the_setting_says() -> None:
    transport = Half()
    await fleet(transport, command=2.0).run_checks("i", ASKS)
    assert transport.limits == [2.0, 2.0, 2.0]
    assert CheckLimits(600.0).apply_to(LOUD).timeout == LOUD.timeout


async def test_what_keeps_us_out_is_told_with_the_fact() -> None:
    class Shut(Half):
        async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
            raise Unreachable(host, "host key not verified", barrier=AccessBarrier.CHANGED_KEY)

    (fact,) = (await fleet(Shut()).run_checks("i", ASKS[:1])).facts
    assert (fact.status, fact.attrs["barrier"]) == (Status.UNREACHABLE, AccessBarrier.CHANGED_KEY.value)
