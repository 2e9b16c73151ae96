"""RDMA writes between two hosts, adapter by adapter, from host memory and from GPU memory: `ib_write_bw` of perftest.

     #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
     65536      1492371          0.00               391.18             0.746119

The check starts both ends, the server first; without a client the server ends at its time limit. Each host is client
of the next host and server of the previous one, so an adapter is judged by the better of two peers.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace

from kb.needle_search import split_lines
from tools.checks.check_types import Check, CheckParticipant, Command, CommandFacts, Format, JointResult, RunNamedCommand, Unreadable
from tools.checks.output_values import get_first_line, parse_number
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "ibbw"
SERVER_HEAD_START_SECONDS = 1.0  # before its client starts
INSTALL_HINT = "ib_write_bw (package perftest; for GPU memory built with CUDA support)"
_FAILURE_TEXTS = {
    "no_peer": r"Couldn't connect to|Unable to (?:open|init) (?:the )?socket connection|Couldn't read remote address",
    "no_gpu_memory": r"cuMem\w+ failed|Couldn't (?:init|allocate) .{0,40}(?:GPU|CUDA)|Couldn't allocate MR|Failed to create MR|option '--use_cuda",
    "no_completion": r"Completion with error|Failed status \d|transport retry|Failed to modify QP|Unable to Connect the HCA",
    "no_device": r"IB device .{0,40}not found|No IB devices|Unable to find the Infiniband|state is Down|Couldn't get context",
}
FAILURE_PATTERNS = [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _FAILURE_TEXTS.items()]
_HEAD_PATTERN = re.compile(r"#bytes +#iterations +BW peak\[(Gb|MB|MiB)/sec\] +BW average\[(?:Gb|MB|MiB)/sec\]")
_DEVICE_PATTERN = re.compile(r"Device +: +([a-z][a-z0-9_]{0,30})")
_RESULT_PATTERN = re.compile(r"^ *(\d{1,12}) +(\d{1,15}) +([\d.]{1,15}|-?nan|inf) +([\d.]{1,15}) ", re.MULTILINE)


def is_perftest(text: str) -> bool:
    return (
        bool(_HEAD_PATTERN.search(text))
        or "RDMA_Write BW Test" in text
        or '"BW_average"' in text
        or any(pattern.search(text[:4000]) for _, pattern in FAILURE_PATTERNS)
    )


def parse_perftest(text: str) -> Sequence[Fact]:
    """Return the bandwidth of the largest message, else the error.

    The output does not say whether GPU memory was used; the caller knows.
    """
    device_match = _DEVICE_PATTERN.search(text)
    device = device_match[1] if device_match else None
    if '"BW_average"' in text:
        return [_parse_json_bandwidth(text, device)]
    if bandwidth := _parse_table_bandwidth(text, device):
        return [bandwidth]
    for name, pattern in FAILURE_PATTERNS:
        if match := pattern.search(text):
            return [Fact(CHECK, "ib.write_failed", name, device, line=_get_line_at(text, match.start()))]
    raise Unreadable("neither a bandwidth nor a known error")


def _parse_table_bandwidth(text: str, device: str | None) -> Fact | None:
    header = _HEAD_PATTERN.search(text)
    if header is None:
        return None
    results = []
    for cells in _RESULT_PATTERN.findall(text[header.end() :] + " "):
        size, _, _, average = cells
        if average.count(".") < 2 and average.strip("."):
            results.append((int(size), float(average), cells))
    if not results:
        return None
    _, average, cells = max(results)
    gbit_per_unit = {"Gb": 1.0, "MB": 0.008, "MiB": 0.008388608}[header[1]]
    return Fact(CHECK, "ib.write_bw", round(average * gbit_per_unit, 2), device, unit="Gb/s", line=" ".join(cells))


def _parse_json_bandwidth(text: str, device: str | None) -> Fact:
    try:
        root = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
        results = root.get("results", root)
        value = parse_number(str(results["BW_average"]))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"JSON of perftest breaks off: {type(error).__name__}") from error
    if value is None or not 0 <= value < 1e6:
        raise Unreadable(f"BW_average is {get_first_line(str(results['BW_average']))!r}")
    return Fact(CHECK, "ib.write_bw", value, device, unit="Gb/s", line=f"BW_average {value:g} Gb/s")


def _get_line_at(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    return split_lines(text[start : start + 300])[0].strip()


async def run_ring(parties: Sequence[CheckParticipant], say: RunNamedCommand) -> JointResult:
    """Test every host with the next one, adapter by adapter. A single host is tested with itself."""
    ring = [(parties[0], parties[-1])]
    if len(parties) > 2:
        ring = list(zip(parties, [*parties[1:], parties[0]], strict=True))
    facts_by_host: dict[str, list[Fact]] = {party.host: [] for party in parties}
    hosts_without_tool: set[str] = set()
    seconds = 0.0
    adapters = sorted({hca for party in parties for hca in party.hcas})
    for hca, cuda in itertools.product(adapters, (False, True)):
        for half_ring in (ring[::2], ring[1::2]):
            pairs = [(client, server) for client, server in half_ring if hca in client.hcas and hca in server.hcas]
            answers = await asyncio.gather(*(_measure_pair(client, server, hca, cuda, say) for client, server in pairs))
            seconds += max((answer.seconds for answer in answers), default=0.0)
            for (client, server), answer in zip(pairs, answers, strict=True):
                if answer.missing:
                    hosts_without_tool.add(client.host)
                facts_by_host[client.host] += [_label_fact(fact, hca, cuda, server.host) for fact in answer.facts]
                if server is not client:
                    facts_by_host[server.host] += [_label_fact(fact, hca, cuda, client.host) for fact in answer.facts]
    best_facts = {host: _select_best_facts(facts) for host, facts in facts_by_host.items()}
    return JointResult(best_facts, seconds, frozenset(hosts_without_tool))


async def _measure_pair(
    client: CheckParticipant, server_party: CheckParticipant, hca: str, cuda: bool, say: RunNamedCommand
) -> CommandFacts:
    """Start the server, then the client, and return the client's answer; the server's if its tool is missing."""
    adapter_number = hca.rpartition("_")[2]
    slots = {"hca": hca, "peer": server_party.address, "gpu": adapter_number if adapter_number.isdecimal() else "0"}
    kind = "cuda" if cuda else ""
    server = asyncio.create_task(say(f"serve{kind}", server_party.host, slots))
    try:
        await asyncio.wait({server}, timeout=SERVER_HEAD_START_SECONDS)
        if server.done() and server.result().missing:
            return server.result()
        return await say(f"write{kind}", client.host, slots)
    finally:
        if not server.done():
            await asyncio.wait({server}, timeout=SERVER_HEAD_START_SECONDS * 5)
        server.cancel()


def _label_fact(fact: Fact, hca: str, cuda: bool, peer: str) -> Fact:
    if not fact.key:
        return replace(fact, line=f"{hca} with {peer}: {fact.line}")
    key = "ib.write_bw_cuda" if cuda and fact.key == "ib.write_bw" else fact.key
    return replace(fact, key=key, device=hca, attrs={"peer": peer, "cuda": cuda})


def _select_best_facts(facts: Sequence[Fact]) -> list[Fact]:
    """Keep the better bandwidth per adapter and memory kind; a failure only if no peer was reached."""
    best_facts: dict[tuple[str | None, bool], Fact] = {}
    for fact in facts:
        adapter_and_memory = (fact.device, bool(fact.attrs.get("cuda")))
        best = best_facts.get(adapter_and_memory)
        if fact.key.startswith("ib.write_bw"):
            if best is None or best.key == "ib.write_failed" or _get_bandwidth(fact) > _get_bandwidth(best):
                best_facts[adapter_and_memory] = fact
        elif fact.key == "ib.write_failed" and best is None:
            best_facts[adapter_and_memory] = fact
    unobserved_facts = [fact for fact in facts if not fact.key]
    return [*best_facts.values(), *unobserved_facts[:4]] or [
        build_unobserved_fact(CHECK, Status.UNREADABLE, "this host and its peers share no InfiniBand adapter")
    ]


def _get_bandwidth(fact: Fact) -> float:
    return float(fact.value) if isinstance(fact.value, int | float) else 0.0


_WRITE_COMMAND = ("ib_write_bw", "-d", "{hca}", "--report_gbits", "-F", "-D", "2")

CHECKS = (
    Check(
        id=CHECK,
        asks="How fast are RDMA writes over each adapter to another host, from host and from GPU memory?",
        commands=(
            Command("serve", _WRITE_COMMAND),
            Command("write", (*_WRITE_COMMAND, "{peer}")),
            Command("servecuda", (*_WRITE_COMMAND, "--use_cuda={gpu}")),
            Command("writecuda", (*_WRITE_COMMAND, "--use_cuda={gpu}", "{peer}")),
        ),
        formats=(Format("perftest", is_perftest, parse_perftest),),
        establishes=("ib.write_bw", "ib.write_bw_cuda", "ib.write_failed"),
        seconds=45.0,
        scope="pair",
        exclusive=True,
        timeout=15.0,
        cap=64 * 1024,
        tool=INSTALL_HINT,
        together=run_ring,
    ),
)
