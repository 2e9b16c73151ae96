"""Inventories from anywhere: a YAML file, and what it takes from Slurm, Kubernetes or Ansible. Readers are pure, only this module fetches.

`sources:` of an inventory file, or a source's name where a file is expected: `slurm:`, `slurm:LOGIN_HOST`, `slurm:FILE`, `kubernetes:`,
`kubernetes:FILE`, `ansible:FILE`. Nothing is ever guessed: a source that cannot be read is refused as a whole, by field or line.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.inventory.hosts import BadInventory, Inventory, parse_inventory, read_inventory
from tools.inventory.sources import ansible, kubernetes, slurm
from tools.inventory.sources.rows import BadSource, Rows, over
from tools.ssh.client import Ssh
from tools.transport import Transport, Unreachable

SECONDS, CAP = 30.0, 64 << 20
KINDS = ("slurm", "kubernetes", "ansible")
Reach = Callable[[Inventory], Transport]


async def open_inventory(where: Path, reach: Reach = Ssh) -> Inventory:
    """The inventory of a file or a source, with everything its sources say. Raises BadInventory."""
    kind, colon, rest = str(where).partition(":")
    if colon and kind in KINDS:
        return await _with_sources({"sources": [{kind: rest}]}, str(where), reach)
    return await _with_sources(read_inventory(where), str(where), reach)


async def _with_sources(raw: Any, name: str, reach: Reach) -> Inventory:
    if not isinstance(raw, dict) or "sources" not in raw:
        return parse_inventory(raw, name)
    own = {part: value for part, value in raw.items() if part != "sources"}
    sources = raw["sources"]
    if not isinstance(sources, list):
        raise BadInventory(name, ["sources: must be a list, like [{slurm: ''}, {ansible: /etc/ansible/hosts}]"])
    found, problems, asked = list[dict[str, Any]](), list[str](), list[str]()
    for place, source in enumerate(sources):
        try:
            rows = await _rows(source, own, name, reach)
            found.append(rows.raw())
            asked += _slurm_place(source)
        except BadSource as why:
            problems += [f"sources.{place}: {problem}" for problem in why.problems]
    if problems:
        raise BadInventory(name, problems)
    return parse_inventory({**over(own, found), "slurm": asked} if asked else over(own, found), name)


def _slurm_place(source: dict[str, Any]) -> list[str]:
    """Where Slurm can be asked about jobs later: a host's name, or here; a file cannot be asked."""
    where = str(source.get("slurm") or "") if "slurm" in source else "/"
    return [] if "/" in where else [where]


async def _rows(source: Any, own: dict[str, Any], name: str, reach: Reach) -> Rows:
    if not isinstance(source, dict) or len(source) != 1 or next(iter(source)) not in KINDS:
        raise BadSource([f"must be one of {', '.join(KINDS)} with a file, a host or nothing, not {source!r}"])
    kind, value = next(iter(source.items()))
    where = str(value or "")
    if kind == "ansible":
        if not where:
            raise BadSource(["ansible: name the inventory file"])
        return await asyncio.to_thread(ansible.read_ansible, Path(where))
    if kind == "kubernetes":
        return kubernetes.read_nodes(await (_file(where) if where else here(kubernetes.NODES)))
    if "/" in where:
        return slurm.read_nodes(await _file(where))
    return await _slurm(where, own, name, reach)


async def _slurm(host: str, own: dict[str, Any], name: str, reach: Reach) -> Rows:
    """JSON where this Slurm can print it, else one line a node; on this machine or on a host of the file's own rows."""
    async with contextlib.AsyncExitStack() as stack:
        if host:
            transport = reach(_only(host, own, name))
            stack.push_async_callback(transport.aclose)

        async def ask(argv: Sequence[str]) -> str:
            return await (there(transport, host, argv) if host else here(argv))

        try:
            return slurm.read_nodes(await ask(slurm.NODES_JSON))
        except BadSource:
            return slurm.read_nodes(await ask(slurm.NODES_PLAIN))


def _only(host: str, own: dict[str, Any], name: str) -> Inventory:
    inventory = parse_inventory({"groups": {}, **own}, name)
    if host not in inventory.hosts:
        raise BadSource([f"slurm: {host!r} is not among the file's own hosts; add it to a group, or name a file by its path"])
    return inventory


def _text(where: str) -> str:
    return Path(where).expanduser().read_text("utf-8")


async def _file(where: str) -> str:
    try:
        return await asyncio.to_thread(_text, where)
    except (OSError, UnicodeDecodeError) as why:
        raise BadSource([f"{where}: cannot be read: {why}"]) from why


async def here(argv: Sequence[str]) -> str:
    """What a command prints on this machine. Raises BadSource."""
    try:
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    except OSError as why:
        raise BadSource([f"{argv[0]}: cannot be run here: {why.strerror}"]) from why
    try:
        out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError as why:
        raise BadSource([f"{' '.join(argv)}: no answer within {SECONDS:g} s"]) from why
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _printed(argv, process.returncode, out, err)


async def there(transport: Transport, host: str, argv: Sequence[str]) -> str:
    """What a command prints on a host. Raises BadSource."""
    try:
        ran = await transport.run(host, argv, timeout=SECONDS, cap=CAP)
    except Unreachable as why:
        raise BadSource([f"{host}: {why.why}"]) from why
    if ran.truncated or ran.timed_out or ran.exit_status is None:
        raise BadSource([f"{host}: {' '.join(argv)}: no whole answer within {SECONDS:g} s"])
    return _printed(argv, ran.exit_status, ran.stdout, ran.stderr)


def _printed(argv: Sequence[str], status: int | None, out: bytes, err: bytes) -> str:
    if status != 0:
        complaint = (err or out).decode("utf-8", "replace").strip().splitlines()
        raise BadSource([f"{' '.join(argv)}: {complaint[-1][:200] if complaint else f'exit status {status}'}"])
    return out.decode("utf-8", "replace")
