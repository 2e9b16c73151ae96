"""All breakages, in playing order."""

from tests.real.breakages.breakage import Breakage
from tests.real.breakages.hardware import CONTROLS, HARDWARE
from tests.real.breakages.network import NETWORK
from tests.real.breakages.scheduler import SCHEDULER
from tests.real.breakages.services import SERVICES
from tests.real.breakages.storage import STORAGE
from tests.real.breakages.system import SYSTEM

BREAKAGES: tuple[Breakage, ...] = (*SERVICES, *SCHEDULER, *STORAGE, *NETWORK, *SYSTEM, *HARDWARE, *CONTROLS)
