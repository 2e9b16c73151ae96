"""Loopback JSON API with which a page in another process breaks, heals and inspects nodes."""

import json
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from aiohttp import web

from deploy.sandbox.cluster.access.cluster import Cluster, SimulationRefusal
from deploy.sandbox.cluster.cases.case import CaseAttachment, CaseTicket
from tools.inventory.host_ranges import BadRange, expand_host_range

MAX_TEXT_CHARS = 200_000  # of a report and of each attachment in a case
CLUSTER: web.AppKey[Cluster] = web.AppKey("cluster", Cluster)


async def _get_state(request: web.Request) -> web.Response:
    return web.json_response(request.app[CLUSTER].state_summary())


async def _get_faults(request: web.Request) -> web.Response:
    cluster = request.app[CLUSTER]
    return web.json_response({"faults": cluster.faults_catalogue(), "difficulties": cluster.difficulties(), "nodes": list(cluster.hosts)})


async def _get_node(request: web.Request) -> web.Response:
    """`?name=gpu-003`: state and recent commands of one machine."""
    try:
        return web.json_response(request.app[CLUSTER].node_detail(request.query.get("name", "")))
    except SimulationRefusal as error:
        return _refuse(str(error))


async def _break_node(request: web.Request) -> web.Response:
    """`{"fault": "G07", "node": "gpu-[001-003]" | ["gpu-003", …] | "*", "gpu": 5, "args": {…}}`; node, gpu and args may be missing."""
    body = await _read_body(request)
    fault, gpu, args = body.get("fault"), body.get("gpu"), body.get("args") or {}
    try:
        nodes = _expand_nodes(body.get("node", "*"))
    except BadRange as error:
        return _refuse(str(error))
    if not isinstance(fault, str) or nodes is None or not isinstance(args, dict) or not (gpu is None or isinstance(gpu, int)):
        return _refuse("fault and node must be text, gpu a number, args a mapping")
    cluster = request.app[CLUSTER]
    fault_args = {str(name): value for name, value in args.items() if name not in ("t", "gpu", "node")}
    try:
        made = cluster.break_(fault, nodes, gpu, **fault_args)
    except SimulationRefusal as error:
        return _refuse(str(error))
    return web.json_response({"ok": True, "made": made, "state": cluster.state_summary()})


def _expand_nodes(node: object) -> str | list[str] | None:
    """Return node names with ranges expanded; "*" unchanged, None for anything else."""
    if isinstance(node, str):
        return node if node == "*" else expand_host_range(node)
    return [str(name) for name in node] if isinstance(node, list) else None


async def _heal_node(request: web.Request) -> web.Response:
    """`{"node": "gpu-003"}`, or nothing for all nodes and modifiers."""
    cluster = request.app[CLUSTER]
    node = (await _read_body(request)).get("node")
    heal_all = node in (None, "", "*")
    try:
        cluster.heal(None if heal_all else str(node))
        if heal_all:
            cluster.make_hard(())
    except SimulationRefusal as error:
        return _refuse(str(error))
    return web.json_response({"ok": True, "state": cluster.state_summary()})


async def _set_modifiers(request: web.Request) -> web.Response:
    """`{"modifiers": ["R2(lines=3000)@gpu-003", …]}` replaces the active modifiers."""
    cluster = request.app[CLUSTER]
    rows = (await _read_body(request)).get("modifiers")
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        return _refuse('modifiers must be a list of texts such as "R2(lines=3000)@gpu-003"')
    try:
        cluster.make_hard(rows)
    except SimulationRefusal as error:
        return _refuse(str(error))
    return web.json_response({"ok": True, "state": cluster.state_summary()})


async def _write_case(request: web.Request) -> web.Response:
    """`{"text": "job 4711 hangs", "author": "olga", "attachments": [{"name": …, "text": …}]}`: return the current
    faults as a case file.
    """
    body = await _read_body(request)
    ticket = CaseTicket(
        "slack",
        _replace_surrogates(body.get("author"))[:80],
        _replace_surrogates(body.get("text"))[:MAX_TEXT_CHARS],
        tuple(_read_attachments(body)),
    )
    name, text = request.app[CLUSTER].as_case(ticket)
    return web.json_response({"ok": True, "name": f"{name}.yaml", "yaml": text})


def _read_attachments(body: dict[str, Any]) -> Iterable[CaseAttachment]:
    rows = body.get("attachments")
    for row in rows[:10] if isinstance(rows, list) else ():
        if isinstance(row, dict):
            name = _replace_surrogates(row.get("name")).replace("/", "_").replace("\\", "_")[:200]
            yield CaseAttachment(name if name.strip(". ") else "file", _replace_surrogates(row.get("text"))[:MAX_TEXT_CHARS])


def _replace_surrogates(value: object) -> str:
    """Return text with lone surrogates replaced."""
    return str(value or "").encode("utf-8", "replace").decode()


async def _restart_job(request: web.Request) -> web.Response:
    """Restart the job; refused while it runs or a node is down."""
    cluster = request.app[CLUSTER]
    try:
        cluster.next_run()
    except SimulationRefusal as error:
        return _refuse(str(error))
    return web.json_response({"ok": True, "state": cluster.state_summary()})


async def _read_body(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read()) if request.can_read_body else {}
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _refuse(why: str) -> web.Response:
    return web.json_response({"ok": False, "error": why}, status=400)


def build_control_app(cluster: Cluster) -> web.Application:
    """Return the app: GET /state, /faults, /node; POST /break, /heal, /modify, /case, /job."""
    app = web.Application()
    app[CLUSTER] = cluster
    get_routes = [web.get("/state", _get_state), web.get("/faults", _get_faults), web.get("/node", _get_node)]
    post_routes = [
        web.post("/break", _break_node),
        web.post("/heal", _heal_node),
        web.post("/modify", _set_modifiers),
        web.post("/case", _write_case),
        web.post("/job", _restart_job),
    ]
    app.add_routes(get_routes + post_routes)
    return app


class ControlServer:
    """Async context manager that serves `build_control_app` on loopback at `url`."""

    def __init__(self, cluster: Cluster, port: int = 0) -> None:
        self._runner = web.AppRunner(build_control_app(cluster), access_log=None)
        self._port = port
        self.url = ""

    async def __aenter__(self) -> "ControlServer":
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._runner.cleanup()
