"""Case outputs that differ from the simulated ones in some texts: `swap: [[old, new], …]` instead of `stdout`. Pure.
Computed once against the case's first world without its outputs.
"""

from collections.abc import Mapping
from typing import Any

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.reader import parse_case
from tests.bench.case_files.lint import LOOK, SLOTS
from tests.bench.run.setup import world_seed
from tools.checks import CHECKS
from tools.checks.check_types import BadSlot

Raw = Mapping[str, Any]


class BadSwap(ValueError):
    """A swap that cannot be made. Names the field."""


def resolved(raw: Raw, source: str = "case") -> dict[str, Any]:
    """Return the case with every swap applied. Raises BadSwap, and BadCase if the rest cannot be simulated."""
    outputs = raw.get("outputs")
    if not isinstance(outputs, dict) or not any(
        _swaps(row) for rows in outputs.values() if isinstance(rows, dict) for row in rows.values()
    ):
        return dict(raw)
    case = parse_case({name: value for name, value in raw.items() if name != "outputs"}, source)
    cluster = Cluster.from_case(case, world_seed(case, 0))
    made = {
        host: {
            name: _made(cluster, host, name, row, f"{source}: outputs.{host}.{name}.swap") if _swaps(row) else row
            for name, row in rows.items()
        }
        for host, rows in outputs.items()
    }
    return {**raw, "outputs": made}


def _swaps(row: object) -> bool:
    return isinstance(row, dict) and "swap" in row


def _made(cluster: Cluster, host: str, name: str, row: Raw, where: str) -> dict[str, Any]:
    pairs = row["swap"]
    if (
        len(row) > 1
        or not isinstance(pairs, list)
        or not all(isinstance(p, list) and len(p) == 2 and all(isinstance(t, str) for t in p) for p in pairs)
    ):
        raise BadSwap(f"{where}: stands alone and is a list of [old, new], two texts each")
    text = _printed(cluster, host, name, where)
    for old, new in pairs:
        if not old or old not in text:
            raise BadSwap(f"{where}: the machine prints no {old[:120]!r}")
        text = text.replace(old, new)
    return {"stdout": text}


def _printed(cluster: Cluster, host: str, name: str, where: str) -> str:
    check, _, command = name.partition(".")
    found = next((one for one in CHECKS[check].commands if one.name == command), None) if check in CHECKS else None
    if found is None:
        raise BadSwap(f"{where}: swaps are made in the output of one command, CHECK.COMMAND")
    try:
        argv = (*LOOK, name) if found.privileged else found.fill_argv({**SLOTS, "node": host, "master": host})
    except BadSlot as error:
        raise BadSwap(f"{where}: {error}") from error
    return cluster.answer(host, argv).stdout.decode()
