"""One rack per test worker, removed afterwards even if the worker is killed."""

import os
from collections.abc import Iterator

import pytest

from deploy.lab.image import cache_folder, folder, image
from deploy.lab.layout import Rack
from deploy.lab.needs import incapable, uninstalled
from deploy.lab.programs import LabRefusal
from deploy.lab.settle import slurm_ready
from deploy.lab.started import start
from tests.real.nodes import calm

# the only skip reason allowed in a run without skips: the machine itself cannot run a rack
ABSENT = "no real rack can stand here"


@pytest.fixture(scope="session")
def rack() -> Iterator[Rack]:
    """Yield a running rack with the node kit on all nodes but cpu-001."""
    environ = dict(os.environ)
    cache = cache_folder(environ)
    if why := incapable():
        pytest.skip(f"{ABSENT}: {why}")
    if why := uninstalled():
        pytest.skip(why)
    if not folder(cache).is_dir() and not environ.get("RACKMEDIC_NO_SKIPS"):
        pytest.skip("the image of the rack is not built: python -m deploy.lab image")
    try:
        made = image(cache, environ)
    except LabRefusal as error:
        pytest.skip(f"{ABSENT}: {error}")
    if why := incapable(made):
        pytest.skip(f"{ABSENT}: {why}")
    with start(f"tests-{os.getpid()}", made) as started:
        yield started.rack


@pytest.fixture
def in_service(rack: Rack) -> Iterator[None]:
    """Start and end the test with idle nodes."""
    calm(rack)
    slurm_ready(rack)
    yield
    calm(rack)
