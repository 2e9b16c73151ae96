"""Stand-in for the Kubernetes API: only what kubectl needs to read nodes, cordon, drain and uncordon.

The first path segment names the account, because kubectl sends no token over plain HTTP. Each account may do what its
role in `rbac.yaml` allows.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from deploy.kubernetes.objects import ApiRefusal, Json, Objects, not_found

ROLES = ("rackmedic-looks", "rackmedic-acts")
VERBS: Mapping[str, str] = {"GET": "get", "PATCH": "patch", "POST": "create", "DELETE": "delete", "PUT": "update"}
PATHS = re.compile(
    r"/(?:api/v1|apis/(?P<group>apps)/v1)(?:/namespaces/(?P<namespace>[a-z0-9-]+))?"
    r"/(?P<resource>nodes|pods|daemonsets)(?:/(?P<name>[a-z0-9.-]+)(?P<sub>/eviction)?)?"
)
GROUPS: Mapping[str, str] = {"apps": "v1", "policy": "v1"}
DISCOVERY: Mapping[str, Json] = {
    "/version": {"major": "1", "minor": "22", "gitVersion": "v1.22.0-stand-in"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": name,
                "versions": [{"groupVersion": f"{name}/{v}", "version": v}],
                "preferredVersion": {"groupVersion": f"{name}/{v}", "version": v},
            }
            for name, v in GROUPS.items()
        ],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "nodes",
                "singularName": "",
                "namespaced": False,
                "kind": "Node",
                "verbs": ["get", "list", "patch"],
                "shortNames": ["no"],
            },
            {"name": "pods", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"], "shortNames": ["po"]},
            {
                "name": "pods/eviction",
                "singularName": "",
                "namespaced": True,
                "group": "policy",
                "version": "v1",
                "kind": "Eviction",
                "verbs": ["create"],
            },
        ],
    },
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "groupVersion": "apps/v1",
        "resources": [{"name": "daemonsets", "singularName": "", "namespaced": True, "kind": "DaemonSet", "verbs": ["get"]}],
    },
    "/apis/policy/v1": {
        "kind": "APIResourceList",
        "groupVersion": "policy/v1",
        "resources": [
            {"name": "poddisruptionbudgets", "singularName": "", "namespaced": True, "kind": "PodDisruptionBudget", "verbs": ["get"]}
        ],
    },
}


def shipped_rules() -> dict[str, list[Json]]:
    """Return the rules of each ClusterRole in `rbac.yaml`."""
    rows = yaml.safe_load_all((files("deploy.kubernetes") / "rbac.yaml").read_text())
    return {row["metadata"]["name"]: row["rules"] for row in rows if row["kind"] == "ClusterRole"}


@dataclass
class KubeApi:
    """The stand-in. `asked` records every request as (account, verb, resource); `objects` may change while it runs."""

    objects: Objects = field(default_factory=Objects)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    address: str = ""
    broken: bool = False  # answers every request with HTTP 500
    rules: dict[str, list[Json]] = field(default_factory=shipped_rules)
    _lock: Lock = field(default_factory=Lock)

    def kubeconfig(self, role: str) -> str:
        """Return a kubeconfig that makes kubectl act as this role."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "k", "cluster": {"server": f"{self.address}/{role}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )

    def answer(self, method: str, target: str, body: bytes) -> Json:
        parts = urlsplit(target)
        _, role, *steps = parts.path.split("/")
        path = "/" + "/".join(steps)
        if self.broken:
            raise ApiRefusal(500, "InternalError", "etcdserver: request timed out")
        if role not in ROLES:
            raise ApiRefusal(401, "Unauthorized", "Unauthorized")
        if method == "GET" and path in DISCOVERY:
            return DISCOVERY[path]
        found = PATHS.fullmatch(path)
        if found is None:
            raise ApiRefusal(404, "NotFound", "the server could not find the requested resource")
        with self._lock:
            self._allowed(role, method, found)
            return self._done(method, found, parse_qs(parts.query), body)

    def _allowed(self, role: str, method: str, found: re.Match[str]) -> None:
        verb = "list" if method == "GET" and not found["name"] else VERBS[method]
        resource, group = found["resource"] + (found["sub"] or ""), found["group"] or ""
        self.asked.append((role, verb, resource))
        if not any(group in r["apiGroups"] and resource in r["resources"] and verb in r["verbs"] for r in self.rules[role]):
            name, who = found["name"] or "", f"system:serviceaccount:rackmedic:{role}"
            what = f'{resource}{f" {json.dumps(name)}" if name else ""} is forbidden: User "{who}" cannot {verb} resource "{resource}"'
            raise ApiRefusal(403, "Forbidden", f'{what} in API group "{group}" at the cluster scope')

    def _done(self, method: str, found: re.Match[str], query: Mapping[str, list[str]], body: bytes) -> Json:
        resource, name, namespace = found["resource"], found["name"] or "", found["namespace"] or ""
        match method, resource:
            case "PATCH", "nodes":
                return self.objects.patched(name, json.loads(body))
            case "POST", "pods":
                self.objects.evict(namespace, name)
                return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            case "GET", "pods" if not name:
                rows = self.objects.selected("".join(query.get("fieldSelector", [""])))
                return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.objects.version)}, "items": rows}
            case "GET", "daemonsets":
                return {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": name, "namespace": namespace}, "spec": {}}
        row = self.objects.nodes.get(name) if resource == "nodes" else self.objects.pods.get((namespace, name))
        if row is None:
            raise not_found(resource, name)
        return row


@contextmanager
def serving(api: KubeApi) -> Iterator[KubeApi]:
    """Serve `api` on a free local port while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                code, said = 200, api.answer(self.command, self.path, body)
            except ApiRefusal as error:
                code, said = error.code, error.status
            text = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_POST = do_DELETE = do_PUT = _reply  # noqa: N815  # http.server looks for these names

        def log_message(self, *args: Any) -> None:
            """Print nothing: `asked` records the requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    api.address = f"http://127.0.0.1:{server.server_port}"
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
