"""Load an inventory from a YAML file and its sources. Only this module fetches; readers are pure.

Sources, in `sources:` or in place of a file: `slurm:`, `slurm:LOGIN_HOST`, `slurm:FILE`, `kubernetes:`,
`kubernetes:FILE`, `ansible:FILE`. An Ansible FILE is an inventory or saved output of `ansible-inventory --list`; only a
file row may name a config: `{ansible: FILE, config: /etc/ansible/ansible.cfg}`. An unreadable source is refused as a
whole.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.yaml_files import Document
from tools.inventory.inventory import BadInventory, Inventory, parse_inventory, read_inventory
from tools.inventory.sources import ansible, kubernetes, slurm
from tools.inventory.sources.commands import run_here, run_on_host, run_process_here
from tools.inventory.sources.source import BadSource, SourceRows, merge_rows
from tools.transport import Transport

SOURCE_KINDS = ("slurm", "kubernetes", "ansible")
TransportFactory = Callable[[Inventory], Transport]


async def open_inventory(where: Path, reach: TransportFactory) -> Inventory:
    """Load a file or source. `reach` creates the transport to its hosts. Raises BadInventory with all problems."""
    kind, colon, rest = str(where).partition(":")
    if colon and kind in SOURCE_KINDS:
        return await _parse_with_sources({"sources": [{kind: rest}]}, str(where), reach, None)
    document = read_inventory(where)
    return await _parse_with_sources(document.plain, str(where), reach, document)


async def _parse_with_sources(raw: Any, name: str, reach: TransportFactory, document: Document | None) -> Inventory:
    if not isinstance(raw, dict) or "sources" not in raw:
        return parse_inventory(raw, name, document)
    if not isinstance(raw["sources"], list):
        problem = "sources: must be a list, like [{slurm: ''}, {ansible: /etc/ansible/hosts}]"
        raise BadInventory(name, [_locate_problem(problem, document, "sources")])
    own_rows = {part: value for part, value in raw.items() if part != "sources"}
    source_rows: list[dict[str, Any]] = []
    slurm_hosts: list[str] = []
    problems: list[str] = []
    for index, row in enumerate(raw["sources"]):
        try:
            source = Source.parse(row)
            source_rows.append((await _read_source(source, own_rows, name, reach)).to_raw())
        except BadSource as error:
            problems += [_locate_problem(f"sources.{index}: {problem}", document, "sources", index) for problem in error.problems]
            continue
        if source.kind == "slurm" and "/" not in source.where:
            slurm_hosts.append(source.where)
    if problems:
        raise BadInventory(name, problems)
    merged = merge_rows(own_rows, source_rows)
    return parse_inventory({**merged, "slurm": slurm_hosts} if slurm_hosts else merged, name, document)


def _locate_problem(problem: str, document: Document | None, *loc: str | int) -> str:
    return f"{document.find_position(*loc)}: {problem}" if document else problem


@dataclass(frozen=True, slots=True)
class Source:
    """One row. `where`: file, host, or "" for this machine; `config`: ansible.cfg or ""."""

    kind: str
    where: str
    config: str = ""

    @classmethod
    def parse(cls, row: Any) -> "Source":
        """Parse a row. Raises BadSource unless it names one source."""
        kinds = [name for name in row if name in SOURCE_KINDS] if isinstance(row, dict) else []
        allowed_fields = {*kinds, "config"} if kinds == ["ansible"] else set(kinds)
        if len(kinds) != 1 or set(row) - allowed_fields:
            raise BadSource([f"must be one of {', '.join(SOURCE_KINDS)} with a file, a host or nothing, not {row!r}"])
        return cls(kinds[0], str(row[kinds[0]] or ""), str(row.get("config") or ""))


async def _read_source(source: Source, own_rows: dict[str, Any], name: str, reach: TransportFactory) -> SourceRows:
    if source.kind == "ansible":
        return await _read_ansible(source)
    if source.kind == "kubernetes":
        text = await (_read_file(source.where) if source.where else run_here(kubernetes.NODES_COMMAND))
        return kubernetes.parse_nodes(text)
    if "/" in source.where:
        return slurm.parse_nodes(await _read_file(source.where))
    return await _read_slurm(source.where, own_rows, name, reach)


async def _read_ansible(source: Source) -> SourceRows:
    if not source.where:
        raise BadSource(["ansible: name the inventory file"])
    text, argv = await asyncio.to_thread(_read_saved_or_build_argv, source)
    if argv:
        status, out, err = await run_process_here(argv)
        if complaint := ansible.find_complaint(status or 0, err.decode("utf-8", "replace")):
            raise BadSource([f"ansible-inventory: {complaint}"])
        text = out.decode("utf-8", "replace")
    return ansible.parse_list(text)


async def _read_slurm(host: str, own_rows: dict[str, Any], name: str, reach: TransportFactory) -> SourceRows:
    """Ask Slurm for JSON, or a Slurm without it for one line per node."""
    async with contextlib.AsyncExitStack() as stack:
        if host:
            transport = reach(_parse_own_hosts(host, own_rows, name))
            stack.push_async_callback(transport.aclose)

        async def run_query(argv: Sequence[str]) -> str:
            return await (run_on_host(transport, host, argv) if host else run_here(argv))

        try:
            return slurm.parse_nodes(await run_query(slurm.NODES_JSON_COMMAND))
        except BadSource:
            return slurm.parse_nodes(await run_query(slurm.NODES_PLAIN_COMMAND))


def _parse_own_hosts(host: str, own_rows: dict[str, Any], name: str) -> Inventory:
    inventory = parse_inventory({"groups": {}, **own_rows}, name)
    if host not in inventory.hosts:
        raise BadSource([f"slurm: {host!r} is not among the file's own hosts; add it to a group, or name a file by its path"])
    return inventory


def _read_saved_or_build_argv(source: Source) -> tuple[str, tuple[str, ...]]:
    file = Path(source.where).expanduser().absolute()
    config = Path(source.config).expanduser().absolute() if source.config else ansible.EMPTY_CONFIG_PATH
    try:
        text = "" if file.is_dir() else file.read_text("utf-8", "replace")
    except OSError as error:
        raise BadSource([f"{source.where}: cannot be read: {error}"]) from error
    return (text, ()) if ansible.is_saved_list(text) else ("", ansible.build_list_argv(file, config))


def _read_text(where: str) -> str:
    return Path(where).expanduser().read_text("utf-8")


async def _read_file(where: str) -> str:
    try:
        return await asyncio.to_thread(_read_text, where)
    except (OSError, UnicodeDecodeError) as error:
        raise BadSource([f"{where}: cannot be read: {error}"]) from error
