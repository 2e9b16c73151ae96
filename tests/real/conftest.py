"""One rack per test worker, removed afterwards even if the worker is killed."""

import os
from collections.abc import Iterator

import pytest

from deploy.lab.image import build_image, get_cache_folder, get_image_folder
from deploy.lab.launcher import start_rack
from deploy.lab.layout import Rack
from deploy.lab.programs import LabRefusal
from deploy.lab.readiness import wait_for_slurm
from deploy.lab.requirements import describe_missing_programs, find_obstacle
from tests.real.nodes import calm

# the only skip reason allowed in a run without skips: the machine itself cannot run a rack
ABSENT = "no real rack can stand here"


@pytest.fixture(scope="session")
def rack() -> Iterator[Rack]:
    """Yield a running rack with the node kit on all nodes but cpu-001."""
    environ = dict(os.environ)
    cache = get_cache_folder(environ)
    if why := find_obstacle():
        pytest.skip(f"{ABSENT}: {why}")
    if why := describe_missing_programs():
        pytest.skip(why)
    if not get_image_folder(cache).is_dir() and not environ.get("RACKMEDIC_NO_SKIPS"):
        pytest.skip("the image of the rack is not built: python -m deploy.lab image")
    try:
        made = build_image(cache, environ)
    except LabRefusal as error:
        pytest.skip(f"{ABSENT}: {error}")
    if why := find_obstacle(made):
        pytest.skip(f"{ABSENT}: {why}")
    with start_rack(f"tests-{os.getpid()}", made) as started:
        yield started.rack


@pytest.fixture
def in_service(rack: Rack) -> Iterator[None]:
    """Start and end the test with idle nodes."""
    calm(rack)
    wait_for_slurm(rack)
    yield
    calm(rack)
