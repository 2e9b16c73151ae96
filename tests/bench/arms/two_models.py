"""Two models that know the truth: one always says it, one always the opposite. They bound how much a design lets any
model decide, and the least it asks of one.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from tests.bench.arms.arm import Answer, Arm, Stage
from tests.bench.case_files.truth import culprit
from tests.bench.model.endpoint import Access, Exchange

PRICED_AS = "gpt-4o"
A_TOKEN = 4  # characters per token, roughly


class Sage:
    """Right at every question. A `graph.model.endpoint.ChatEndpoint`."""

    model = PRICED_AS

    def __init__(self, stage: Stage) -> None:
        assert stage.cluster is not None  # the runner passes it to arms that see the cluster
        causes = [culprit(row) for row in stage.cluster.injected_faults]
        self._labels = frozenset(row.label for row in causes)
        self._hosts = frozenset(host for row in causes for host in row.hosts)

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        said = json.dumps(self._said(name, asked.user))
        size = len(asked.system) + len(asked.user) + len(json.dumps(schema))
        return ModelReply(said, size // A_TOKEN, max(1, len(said) // A_TOKEN), "one who knows")

    async def aclose(self) -> None: ...

    def _said(self, name: str, text: str) -> dict[str, Any]:
        match name:
            case "read":
                return self._read(text)
            case "explore" | "critique":
                return self._objections(text) if name == "critique" else {"ideas": [], "questions": ["Is it so?"]}
            case "rank":
                return {"labels": [path for path in listed(text, "Causes") if self.holds(self._leads(path))]}
            case "judge":
                guilty = self.holds(listed(text, "Suspected cause")[0].partition(" of ")[0] in self._labels)
                findings = len(re.findall(r"^\d+: ", text, re.MULTILINE))
                return {
                    "verdict": "confirmed" if guilty else "rejected",
                    "because": "I know.",
                    "cites": [str(at) for at in range(findings)],
                }
            case "summary" | "rerank":
                return {"incidents": self._alike(text)} if name == "rerank" else {"summary": text.partition("Report:\n")[2]}
            case "conclusion":
                return {"causes": listed(text, "Causes"), "report": "It is so."}
        return {
            "labels": [label for label in listed(text, "Causes") if self.holds(label in self._labels)],
            "hosts": [host for host in listed(text, "Hosts") if self.holds(host in self._hosts)],
        }

    def _read(self, text: str) -> dict[str, Any]:
        hosts = [host for host in listed(text, "Hosts") if self.holds(host in self._hosts)]
        causes = [line.partition("  ")[0] for line in listed(text, "Causes")]
        likely = [label for label in causes if self.holds(label in self._labels)][:3]
        said = {"symptoms": [], "hosts": hosts, "job": "", "times": [], "signatures": [], "outside": "", "looks": []}
        category = likely[0].partition(".")[0] if likely else "OTHER"
        return {**said, "category": category, "causes": [{"cause": label, "p": 0.9} for label in likely]}

    def _objections(self, text: str) -> dict[str, Any]:
        """Judge claims by whether they name a faulty machine: claims are worded, not labelled."""
        found, cites = text.partition("Claims:")[2].partition("Findings:"), [0] if re.search(r"Findings:\n<<\w+\n0: ", text) else []
        claims = re.findall(r"^(\d+): (.*)$", found[0], re.MULTILINE)
        guilty = {int(at): any(host in words for host in self._hosts) for at, words in claims}
        verdicts = {at: "holds" if self.holds(true) else "contradicted" for at, true in guilty.items()}
        return {"objections": [{"claim": at, "verdict": says, "because": "I know.", "cites": cites} for at, says in verdicts.items()]}

    def _leads(self, path: str) -> bool:
        return any(label == path or label.startswith(f"{path}.") for label in self._labels)

    def _alike(self, text: str) -> list[str]:
        """Rank incidents by their order: their causes are not shown."""
        return listed(text, "Past incidents")[:2]

    def holds(self, true: bool) -> bool:
        """Return the answer to a true statement."""
        return true


class Liar(Sage):
    def holds(self, true: bool) -> bool:
        return not true


def listed(text: str, title: str) -> list[str]:
    block = re.search(rf"^{re.escape(title)}:\n((?:- .*\n?)*)", text, re.MULTILINE)
    return [line[2:] for line in block[1].splitlines()] if block else []


class With:
    """An arm with one of these models."""

    def __init__(self, arm: Arm, model: Callable[[Stage], Sage]) -> None:
        self._arm, self._model = arm, model

    async def solve(self, stage: Stage) -> Answer:
        line = Exchange(Access("", "", PRICED_AS), self._model(stage)).line("", "", 0)
        return await self._arm.solve(replace(stage, line=line, cluster=None))
