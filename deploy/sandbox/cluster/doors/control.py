"""Loopback JSON API with which a page in another process breaks, heals and inspects nodes."""

import json
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from aiohttp import web

from deploy.sandbox.cluster.cases.case import CaseAttachment, CaseTicket
from deploy.sandbox.cluster.doors.cluster import Cluster, NoSuchThing
from tools.inventory.host_ranges import BadRange, expand_host_range

MOST_TEXT = 200_000  # maximum characters of a report and of each attachment in a case
CLUSTER: web.AppKey[Cluster] = web.AppKey("cluster", Cluster)


async def _state(request: web.Request) -> web.Response:
    return web.json_response(request.app[CLUSTER].state_summary())


async def _faults(request: web.Request) -> web.Response:
    of = request.app[CLUSTER]
    return web.json_response({"faults": of.faults_catalogue(), "difficulties": of.difficulties(), "nodes": list(of.hosts)})


async def _node(request: web.Request) -> web.Response:
    """`?name=gpu-003`: state and recent commands of one machine."""
    try:
        return web.json_response(request.app[CLUSTER].node_detail(request.query.get("name", "")))
    except NoSuchThing as error:
        return _refusal(str(error))


async def _break(request: web.Request) -> web.Response:
    """`{"fault": "G07", "node": "gpu-[001-003]" | ["gpu-003", …] | "*", "gpu": 5, "args": {…}}`; node, gpu and args may be missing."""
    body = await _body(request)
    fault, gpu, args = body.get("fault"), body.get("gpu"), body.get("args") or {}
    try:
        nodes = _nodes(body.get("node", "*"))
    except BadRange as error:
        return _refusal(str(error))
    if not isinstance(fault, str) or nodes is None or not isinstance(args, dict) or not (gpu is None or isinstance(gpu, int)):
        return _refusal("fault and node must be text, gpu a number, args a mapping")
    try:
        made = request.app[CLUSTER].break_(
            fault, nodes, gpu, **{str(name): value for name, value in args.items() if name not in ("t", "gpu", "node")}
        )
    except NoSuchThing as error:
        return _refusal(str(error))
    return web.json_response({"ok": True, "made": made, "state": request.app[CLUSTER].state_summary()})


def _nodes(node: object) -> str | list[str] | None:
    """Return node names with ranges expanded; "*" unchanged, None for anything else."""
    if isinstance(node, str):
        return node if node == "*" else expand_host_range(node)
    return [str(name) for name in node] if isinstance(node, list) else None


async def _heal(request: web.Request) -> web.Response:
    """`{"node": "gpu-003"}`, or nothing for all nodes and modifiers."""
    node = (await _body(request)).get("node")
    everything = node in (None, "", "*")
    try:
        request.app[CLUSTER].heal(None if everything else str(node))
        if everything:
            request.app[CLUSTER].make_hard(())
    except NoSuchThing as error:
        return _refusal(str(error))
    return web.json_response({"ok": True, "state": request.app[CLUSTER].state_summary()})


async def _modify(request: web.Request) -> web.Response:
    """`{"modifiers": ["R2(lines=3000)@gpu-003", …]}` replaces the active modifiers."""
    rows = (await _body(request)).get("modifiers")
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        return _refusal('modifiers must be a list of texts such as "R2(lines=3000)@gpu-003"')
    try:
        request.app[CLUSTER].make_hard(rows)
    except NoSuchThing as error:
        return _refusal(str(error))
    return web.json_response({"ok": True, "state": request.app[CLUSTER].state_summary()})


async def _case(request: web.Request) -> web.Response:
    """`{"text": "job 4711 hangs", "author": "olga", "attachments": [{"name": …, "text": …}]}`: return the current
    faults as a case file.
    """
    body = await _body(request)
    ticket = CaseTicket("slack", _letters(body.get("author"))[:80], _letters(body.get("text"))[:MOST_TEXT], tuple(_attached(body)))
    name, text = request.app[CLUSTER].as_case(ticket)
    return web.json_response({"ok": True, "name": f"{name}.yaml", "yaml": text})


def _attached(body: dict[str, Any]) -> Iterable[CaseAttachment]:
    rows = body.get("attachments")
    for row in rows[:10] if isinstance(rows, list) else ():
        if isinstance(row, dict):
            name = _letters(row.get("name")).replace("/", "_").replace("\\", "_")[:200]
            yield CaseAttachment(name if name.strip(". ") else "file", _letters(row.get("text"))[:MOST_TEXT])


def _letters(value: object) -> str:
    """Return text with lone surrogates replaced."""
    return str(value or "").encode("utf-8", "replace").decode()


async def _job(request: web.Request) -> web.Response:
    """Restart the job; refused while it runs or a node is down."""
    try:
        request.app[CLUSTER].next_run()
    except NoSuchThing as error:
        return _refusal(str(error))
    return web.json_response({"ok": True, "state": request.app[CLUSTER].state_summary()})


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read()) if request.can_read_body else {}
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _refusal(why: str) -> web.Response:
    return web.json_response({"ok": False, "error": why}, status=400)


def control_app(cluster: Cluster) -> web.Application:
    """Return the app: GET /state, /faults, /node; POST /break, /heal, /modify, /case, /job."""
    app = web.Application()
    app[CLUSTER] = cluster
    reads = [web.get("/state", _state), web.get("/faults", _faults), web.get("/node", _node)]
    makes = [web.post("/break", _break), web.post("/heal", _heal), web.post("/modify", _modify)]
    app.add_routes([*reads, *makes, web.post("/case", _case), web.post("/job", _job)])
    return app


class ControlServer:
    """Async context manager that serves `control_app` on loopback at `url`."""

    def __init__(self, cluster: Cluster, port: int = 0) -> None:
        self._runner = web.AppRunner(control_app(cluster), access_log=None)
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
