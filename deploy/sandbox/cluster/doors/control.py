"""The door by which a page in another process breaks and heals nodes: five JSON routes on loopback."""

from types import TracebackType
from typing import Any

from aiohttp import web

from deploy.sandbox.cluster.doors.cluster import Cluster, NoSuchThing

CLUSTER: web.AppKey[Cluster] = web.AppKey("cluster", Cluster)


async def _state(request: web.Request) -> web.Response:
    return web.json_response(request.app[CLUSTER].state_summary())


async def _faults(request: web.Request) -> web.Response:
    return web.json_response({"faults": request.app[CLUSTER].faults_catalogue(), "nodes": list(request.app[CLUSTER].hosts)})


async def _break(request: web.Request) -> web.Response:
    """`{"fault": "G07", "node": "gpu-003" | ["gpu-003", …] | "*", "gpu": 5, "args": {…}}`; node, gpu and args may be missing."""
    body = await _body(request)
    fault, node, gpu, args = body.get("fault"), body.get("node", "*"), body.get("gpu"), body.get("args") or {}
    nodes = node if isinstance(node, str) else [str(name) for name in node] if isinstance(node, list) else None
    if not isinstance(fault, str) or nodes is None or not isinstance(args, dict) or not (gpu is None or isinstance(gpu, int)):
        return _refusal("fault and node must be text, gpu a number, args a mapping")
    try:
        made = request.app[CLUSTER].break_(
            fault, nodes, gpu, **{str(name): value for name, value in args.items() if name not in ("t", "gpu", "node")}
        )
    except NoSuchThing as why:
        return _refusal(str(why))
    return web.json_response({"ok": True, "made": made, "state": request.app[CLUSTER].state_summary()})


async def _heal(request: web.Request) -> web.Response:
    """`{"node": "gpu-003"}`, or nothing for all nodes."""
    node = (await _body(request)).get("node")
    try:
        request.app[CLUSTER].heal(None if node in (None, "", "*") else str(node))
    except NoSuchThing as why:
        return _refusal(str(why))
    return web.json_response({"ok": True, "state": request.app[CLUSTER].state_summary()})


async def _job(request: web.Request) -> web.Response:
    """Start the job again; refused while it runs or a node is missing."""
    try:
        request.app[CLUSTER].next_run()
    except NoSuchThing as why:
        return _refusal(str(why))
    return web.json_response({"ok": True, "state": request.app[CLUSTER].state_summary()})


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json() if request.can_read_body else {}
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _refusal(why: str) -> web.Response:
    return web.json_response({"ok": False, "error": why}, status=400)


def control_app(cluster: Cluster) -> web.Application:
    """The routes GET /state, GET /faults, POST /break, POST /heal and POST /job."""
    app = web.Application()
    app[CLUSTER] = cluster
    reads = [web.get("/state", _state), web.get("/faults", _faults)]
    app.add_routes([*reads, web.post("/break", _break), web.post("/heal", _heal), web.post("/job", _job)])
    return app


class ControlServer:
    """The same on a port of loopback, as an async context manager. `url` is its address."""

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
