"""List the checks that have parsed a real output: `python -m tests.real.read_outputs` starts a rack with all parts,
runs every passive check, parses the published captures, and prints the table of docs/real-outputs.md.
"""

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from deploy.lab.fabric import FabricPlan, start_fabric
from deploy.lab.image import build_image, get_cache_folder
from deploy.lab.launcher import start_rack
from deploy.lab.layout import Rack, find_node
from deploy.lab.parts.accounting import start_accounting
from deploy.lab.parts.bmc import HEALTHY_SENSORS, PSU_FAILED, start_bmc
from deploy.lab.parts.engine import start_engine
from deploy.lab.provision import DOCKER_HOST
from deploy.lab.readiness import wait_for_slurm
from tests.conftest import CAPTURES
from tests.real.looking import PASSIVE, look
from tests.real.nodes import submit
from tools.checks import CHECKS
from tools.fact import Fact, Status

HOSTS = ("gpu-001", DOCKER_HOST)
MOCK = "MOCK"  # name prefix of captures that their authors invented


def tells(facts: Iterable[Fact]) -> bool:
    """Return whether a value was read, not only an absence."""
    return any(fact.status is Status.OK and fact.key and not fact.key.startswith("check.") and fact.value is not False for fact in facts)


async def on_a_rack() -> Mapping[str, str]:
    """Return the rack's nodes on which each check read something."""
    with start_rack(f"outputs-{os.getpid()}", build_image(get_cache_folder(os.environ), dict(os.environ))) as started:
        furnish(started.rack)
        answers = await look(started.rack, HOSTS)
    seen: dict[str, list[str]] = {}
    for (host, check), answer in answers.items():
        if tells(answer.facts):
            seen.setdefault(check, []).append(host)
    return {check: ", ".join(hosts) for check, hosts in seen.items()}


def furnish(rack: Rack) -> None:
    """Start every real part of a rack, and a job."""
    start_accounting(rack)
    wait_for_slurm(rack)
    start_fabric(rack, FabricPlan())
    start_engine(rack)
    start_bmc(rack, find_node(HOSTS[0]), HEALTHY_SENSORS, (PSU_FAILED,))
    submit(rack, HOSTS[0], "echo 'rank 0: step 1'; export NCCL_DEBUG=INFO WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500; sleep 600")


def of_captures() -> Mapping[str, int]:
    """Return how many published captures each check read. Job logs may be any text, so generic job facts do not count."""
    files = [path for path in sorted(CAPTURES.rglob("*")) if path.is_file() and not path.name.startswith((MOCK, "INDEX"))]
    found: dict[str, int] = {}
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        for check in CHECKS.values():
            if tells(fact for fact in check.parse_output(text) if fact.key not in ("job.ranks", "job.log")):
                found[check.id] = found.get(check.id, 0) + 1
    return found


def table(rack: Mapping[str, str], captures: Mapping[str, int]) -> str:
    """Return a row per check, and the totals."""
    rows = ["| check | on the rack | captures | not yet |", "|---|---|---|---|"]
    for check in CHECKS.values():
        here, there = rack.get(check.id, ""), captures.get(check.id, 0)
        missing = "" if here or there else "needs GPUs for itself" if check.exclusive else "nothing of it in the rack or the captures"
        rows.append(f"| `{check.id}` | {here} | {there or ''} | {missing} |")
    read = sum(bool(rack.get(check) or captures.get(check)) for check in CHECKS)
    passive = sum(bool(rack.get(check) or captures.get(check)) for check in PASSIVE)
    return "\n".join([*rows, "", f"{read} of {len(CHECKS)} checks, {passive} of the {len(PASSIVE)} passive ones."])


def main() -> int:
    captures = of_captures() if Path(CAPTURES).is_dir() else {}
    sys.stdout.write(table(asyncio.run(on_a_rack()), captures) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
