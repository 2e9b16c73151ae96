"""A real server of a language model for the tests that need one.

Use with `pytest_plugins = ("tests.support.fixtures_model_server",)`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_server import RealModel, missing


def _server(log: Path, *, embeds: bool = False) -> Iterator[RealModel]:
    if package := missing():
        pytest.skip(f"NO {package}: a real model's server is NOT tested. uv sync --group model-server")
    server = RealModel(log, embeds)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def real_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealModel]:
    """Share one server per module: an idle one takes a fifth of a core. It keeps no state between questions."""
    yield from _server(tmp_path_factory.mktemp("model") / "llama.log")


@pytest.fixture
def mortal_model(tmp_path: Path) -> Iterator[RealModel]:
    """Start a server that the test may kill."""
    yield from _server(tmp_path / "llama.log")


@pytest.fixture
def real_vectors(tmp_path: Path) -> Iterator[RealModel]:
    """Serve the same model for embeddings."""
    yield from _server(tmp_path / "llama.log", embeds=True)
