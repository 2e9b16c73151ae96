"""RDMA writes between two hosts, adapter by adapter, from host memory and from GPU memory: `ib_write_bw` of perftest.

     #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
     65536      1492371          0.00               391.18             0.746119

The check starts both ends, the server first; without a client the server ends at its time limit. Each host is client
of the next host and server of the previous one, so an adapter is judged by the better of two peers.
"""

import asyncio
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
_ROW_PATTERN = re.compile(r"^ *(\d{1,12}) +(\d{1,15}) +([\d.]{1,15}|-?nan|inf) +([\d.]{1,15}) ", re.MULTILINE)


def is_perftest(text: str) -> bool:
    return (
        bool(_HEAD_PATTERN.search(text))
        or "RDMA_Write BW Test" in text
        or '"BW_average"' in text
        or any(p.search(text[:4000]) for _, p in FAILURE_PATTERNS)
    )


def parse_perftest(text: str) -> Sequence[Fact]:
    """Use the largest message. The output does not say whether GPU memory was used; the caller knows."""
    device = next(iter(_DEVICE_PATTERN.findall(text)), None)
    if '"BW_average"' in text:
        return [_parse_json_bandwidth(text, device)]
    if head := _HEAD_PATTERN.search(text):
        rows = [
            (int(row[0]), float(row[3]), row)
            for row in _ROW_PATTERN.findall(text[head.end() :] + " ")
            if row[3].count(".") < 2 and row[3].strip(".")
        ]
        if rows:
            _, value, row = max(rows)
            factor = {"Gb": 1.0, "MB": 0.008, "MiB": 0.008388608}[head[1]]
            return [Fact(CHECK, "ib.write_bw", round(value * factor, 2), device, unit="Gb/s", line=" ".join(row))]
    for name, pattern in FAILURE_PATTERNS:
        if match := pattern.search(text):
            return [Fact(CHECK, "ib.write_failed", name, device, line=_get_line_at(text, match.start()))]
    raise Unreadable("neither a bandwidth nor a known error")


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
    """Test every host with the next, adapter by adapter; a single host with itself."""
    ring = list(zip(parties, [*parties[1:], parties[0]], strict=True)) if len(parties) > 2 else [(parties[0], parties[-1])]
    facts_by_host: dict[str, list[Fact]] = {party.host: [] for party in parties}
    missing: set[str] = set()
    seconds = 0.0
    for hca, cuda in ((hca, cuda) for hca in sorted({hca for party in parties for hca in party.hcas}) for cuda in (False, True)):
        for half in (ring[::2], ring[1::2]):
            pair_answers = await asyncio.gather(
                *(_measure_pair(one, other, hca, cuda, say) for one, other in half if hca in one.hcas and hca in other.hcas)
            )
            seconds += max((answer.seconds for answer in pair_answers), default=0.0)
            for (one, other), answer in zip([p for p in half if hca in p[0].hcas and hca in p[1].hcas], pair_answers, strict=True):
                missing |= {one.host} if answer.missing else set()
                for party, peer in ((one, other), (other, one)) if one is not other else ((one, other),):
                    facts_by_host[party.host] += [_label_fact(fact, hca, cuda, peer.host) for fact in answer.facts]
    return JointResult({host: _select_best_facts(facts) for host, facts in facts_by_host.items()}, seconds, frozenset(missing))


async def _measure_pair(one: CheckParticipant, other: CheckParticipant, hca: str, cuda: bool, say: RunNamedCommand) -> CommandFacts:
    slots = {"hca": hca, "peer": other.address, "gpu": hca.rpartition("_")[2] if hca.rpartition("_")[2].isdecimal() else "0"}
    kind = "cuda" if cuda else ""
    server = asyncio.create_task(say(f"serve{kind}", other.host, slots))
    try:
        await asyncio.wait({server}, timeout=SERVER_HEAD_START_SECONDS)
        if server.done() and server.result().missing:
            return server.result()
        return await say(f"write{kind}", one.host, slots)
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
    best: dict[tuple[str | None, bool], Fact] = {}
    for fact in facts:
        place = (fact.device, bool(fact.attrs.get("cuda")))
        if fact.key.startswith("ib.write_bw") and (
            place not in best or best[place].key == "ib.write_failed" or _get_bandwidth(fact) > _get_bandwidth(best[place])
        ):
            best[place] = fact
        elif fact.key == "ib.write_failed":
            best.setdefault(place, fact)
    blinds = [fact for fact in facts if not fact.key]
    return [*best.values(), *blinds[:4]] or [
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
