"""A stand-in language model: chat completions of an OpenAI-compatible endpoint, by fixed rules, with faults on demand.

It answers deterministically in the requested JSON shape with values from the prompt, so demo and tests cover every path
of the model client.
"""

import asyncio
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

MODEL_NAME = "sandbox"  # model name in every answer

Fault = Literal["429", "500", "401", "hang", "drip", "garbage", "not_json", "truncated", "empty", "refusal", "disconnect", "no_usage"]


@dataclass
class Script:
    """Scripted reactions to the next requests, in order; afterwards the rules answer again."""

    # `{"fault": NAME}`, `{"answer": {…}}`, `{"text": "…"}` or `{"status": 400, "error": {…}}`; a fault may carry
    # `retry_after`
    next: deque[Mapping[str, Any]] = field(default_factory=deque)
    asked: list[dict[str, Any]] = field(default_factory=list)  # request bodies received
    released: asyncio.Event = field(default_factory=asyncio.Event)  # set it to release hanging requests


def read_list(prompt: str, title: str) -> list[str]:
    """Return the ids in one list of a prompt."""
    found = re.search(rf"^{re.escape(title)}:\n((?:- .*\n?)+)", prompt, re.MULTILINE)
    return [line[2:].strip() for line in found.group(1).splitlines()] if found else []


def read_section(prompt: str, title: str) -> str:
    """Return the untrusted text under one title."""
    found = re.search(rf"^{re.escape(title)}:\n<<(\w+)\n(.*?)\n\1>>", prompt, re.MULTILINE | re.DOTALL)
    return found.group(2) if found else ""


def answer_read(prompt: str) -> dict[str, Any]:
    report = read_section(prompt, "Report")
    errors = [line.strip() for line in report.splitlines() if re.search(r"error|xid|fail|timeout", line, re.IGNORECASE)]
    job = re.search(r"\bjob (\w+)", report)
    symptoms = [one for one in read_list(prompt, "Symptoms") if one.replace("_", " ") in report.lower()]
    hosts = [host for host in read_list(prompt, "Hosts") if host in report]
    words = set(re.findall(r"[a-z]{3,}", (report + read_section(prompt, "Findings")).lower()))
    causes = [line.partition("  ")[0] for line in read_list(prompt, "Causes")]
    likely = sorted(causes, key=lambda label: -len(words & set(re.findall(r"[a-z]{3,}", label.lower()))))[:3]
    return {
        "symptoms": symptoms,
        "hosts": hosts,
        "job": job.group(1) if job else "",
        "times": [],
        "signatures": errors[:5],
        "category": likely[0].partition(".")[0] if likely else "OTHER",
        "causes": [{"cause": label, "p": round(0.5 / at, 2)} for at, label in enumerate(likely, 1)],
        "outside": "",
        **({"looks": []} if read_list(prompt, "Looks") else {}),
    }


def answer_explore(prompt: str) -> dict[str, Any]:
    [first, *_] = [line for line in read_section(prompt, "Report").splitlines() if line.strip()] or [""]
    findings = re.findall(r"^\d+: ", read_section(prompt, "Findings"), re.MULTILINE)
    branches = [line.partition("  ")[0] for line in read_list(prompt, "Branches")]
    idea = {
        "title": "Something that no rule of mine names",
        "cause": "It would make what was reported, and I know no more of it.",
        "branch": branches[0] if branches else "",
        "cites": [0] if findings else [],
        "quotes": [first[:60].strip()] if first else [],
        "confirms": "The same again where nothing else is wrong.",
        "refutes": "The same job runs well here.",
        "hosts": [],
        "looks": [],
        "suggestions": ["Compare with a job that runs well."],
        "standing": "open",
    }
    asked = ["What changed since it last worked?", "Do other jobs on the same machines run well?"]
    return {"ideas": [idea] if first or findings else [], "questions": asked}


def answer_critique(prompt: str) -> dict[str, Any]:
    claims = re.findall(r"^(\d+): ", read_section(prompt, "Claims"), re.MULTILINE)
    return {"objections": [{"claim": int(at), "verdict": "holds", "because": "Nothing speaks against it.", "cites": []} for at in claims]}


def answer_intent(prompt: str) -> dict[str, Any]:
    said = read_section(prompt, "Message").lower()
    hosts = [host for host in read_list(prompt, "Hosts") if host in said]
    wanted = next((one for one in read_list(prompt, "Intents") if one.replace("_", " ") in said), "not_understood")
    return {"intent": wanted, "hosts": hosts, "labels": [], "check": "", "remedy": ""}


def answer_label(prompt: str) -> dict[str, Any]:
    said = (read_section(prompt, "Incident") + read_section(prompt, "Sentences")).lower()
    words = set(re.findall(r"[a-z]{3,}", said))
    causes = read_list(prompt, "Causes")
    best = max(causes, key=lambda one: len(words & set(re.findall(r"[a-z]{3,}", one.lower()))), default="")
    numbered = [line.partition(": ") for line in read_section(prompt, "Sentences").splitlines()]
    cause = next((int(at) for at, _, one in reversed(numbered) if "cause" in one), -1)
    return {"kind": "incident", "label": best.partition("  ")[0], "cause": cause, "fix": -1, "summary": "It was seen and it was mended."}


RULES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "read": answer_read,
    "explore": answer_explore,
    "critique": answer_critique,
    "intent": answer_intent,
    "label": answer_label,
}


def answer_schema(schema: Mapping[str, Any]) -> Any:
    """Return an answer for any other schema: the first enum value, otherwise empty."""
    match schema:
        case {"enum": [first, *_]}:
            return first
        case {"type": "object"}:
            return {name: answer_schema(part) for name, part in schema.get("properties", {}).items()}
        case {"type": "array", "items": {"enum": [_, *_]} as item}:
            return [answer_schema(item)]
        case {"type": "array"}:
            return []
        case {"type": "integer"}:
            return 0
    return ""


def build_completion(text: str, prompt: str, **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **choice.pop("message", {})}
    return {
        "id": "chatcmpl-sandbox",
        "object": "chat.completion",
        "created": 1779246600,
        "model": MODEL_NAME,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4, "total_tokens": (len(prompt) + len(text)) // 4},
    }


def embed_text(text: str) -> list[float]:
    """Count trigrams in 64 hash buckets."""
    found = [0.0] * 64
    for word in re.findall(r"[a-z0-9]{3,}", text.lower()):
        for at in range(len(word) - 2):
            found[zlib.crc32(word[at : at + 3].encode()) % 64] += 1.0
    return found if any(found) else [1.0, *found[1:]]


class SandboxModel:
    """The HTTP handlers and their script."""

    def __init__(self) -> None:
        self.script = Script()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_post("/v1/embeddings", self.embed)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/_sandbox/next", self.plan)
        return app

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]})

    async def plan(self, request: web.Request) -> web.Response:
        """Append steps to the script: a JSON list."""
        self.script.next.extend(await request.json())
        return web.json_response({"waiting": len(self.script.next)})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.script.asked.append(body)
        step = self.script.next.popleft() if self.script.next else {}
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        paid = prompt + json.dumps(body.get("response_format") or "")  # the schema counts as prompt tokens too
        if "fault" in step:
            return await self._faulty(request, step, paid)
        if "status" in step:
            return web.json_response({"error": step["error"]}, status=step["status"])
        if "text" in step:
            return web.json_response(build_completion(step["text"], paid))
        return web.json_response(build_completion(json.dumps(step.get("answer") or self._by_rule(body, prompt)), paid))

    async def embed(self, request: web.Request) -> web.StreamResponse:
        """Return trigram vectors, so texts that share parts of words are near. Faults apply as to completions; a
        `vectors` step is sent unchanged.
        """
        body = await request.json()
        self.script.asked.append(body)
        step = self.script.next.popleft() if self.script.next else {}
        if "fault" in step:
            return await self._faulty(request, step, "")
        vectors = step["vectors"] if "vectors" in step else [embed_text(text) for text in body["input"]]
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data, "model": MODEL_NAME, "usage": usage})

    def _by_rule(self, body: Mapping[str, Any], prompt: str) -> dict[str, Any]:
        shape = (body.get("response_format") or {}).get("json_schema") or {}
        rule = RULES.get(shape.get("name", ""))
        return rule(prompt) if rule else answer_schema(shape.get("schema", {"type": "object"}))

    async def _faulty(self, request: web.Request, step: Mapping[str, Any], prompt: str) -> web.StreamResponse:
        fault: Fault = step["fault"]
        if fault in ERRORS:
            status, error = ERRORS[fault]
            headers = {"retry-after": str(step["retry_after"])} if "retry_after" in step else {}
            return web.json_response({"error": {"message": fault, "type": "sandbox", **error}}, status=status, headers=headers)
        if fault == "hang":
            await self.script.released.wait()
            return web.json_response(build_completion("{}", prompt))
        if fault == "drip":
            return await self._drip(request)
        if fault == "disconnect":
            assert request.transport
            request.transport.close()
            return web.Response()
        return self._bad(fault, prompt)

    def _bad(self, fault: Fault, prompt: str) -> web.Response:
        match fault:
            case "garbage":
                return web.json_response(build_completion("I think it is the network.", prompt))
            case "not_json":
                return web.Response(text="<html>Bad gateway</html>", content_type="application/json")
            case "truncated":
                return web.json_response(build_completion('{"labels": ["GPU', prompt, finish_reason="length"))
            case "refusal":
                return web.json_response(build_completion("", prompt, message={"content": None, "refusal": "I cannot help with that."}))
            case "no_usage":
                return web.json_response(
                    {k: v for k, v in build_completion('{"ideas": [], "questions": ["Why?"]}', prompt).items() if k != "usage"}
                )
            case _:
                return web.json_response(build_completion("", prompt))

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        """Send an endless answer that never triggers a read timeout."""
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        while not self.script.released.is_set():
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response


ERRORS: Mapping[str, tuple[int, dict[str, Any]]] = {
    "429": (429, {"code": "rate_limit_exceeded"}),
    "500": (500, {}),
    "401": (401, {"code": "invalid_api_key"}),
    "quota": (429, {"code": "insufficient_quota"}),
    "no_schema": (400, {"message": "response_format of type json_schema is not supported"}),
}


async def serve(model: SandboxModel, port: int = 0) -> tuple[web.AppRunner, str]:
    """Serve on loopback and return the runner and the clients' base URL."""
    runner = web.AppRunner(model.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    [address] = runner.addresses
    return runner, f"http://127.0.0.1:{address[1]}/v1"
