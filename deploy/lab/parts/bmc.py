"""A BMC for a node of a rack: OpenIPMI's `ipmi_sim`, queried by the real ipmitool over the network.

A container has no /dev/ipmi0, so the node's `ipmitool` is a wrapper that adds the address.
"""

from dataclasses import dataclass

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.layout import Rack, RackNode
from deploy.lab.readiness import wait_until

FOLDER, UNIT, WRAPPER = "/etc/lab-bmc", "lab-bmc", "/usr/local/sbin/ipmitool"
USER, PASSWORD = "operator", "lab"
CONTROLLER_ADDRESS = "0x20"
_AUTHENTICATION = "none md2 md5 straight"
_ALLOWED = "".join(f"    allowed_auths_{who} {_AUTHENTICATION}\n" for who in ("callback", "user", "operator", "admin"))
LAN_CONF = f"""\
name "lab"
set_working_mc {CONTROLLER_ADDRESS}
  startlan 1
    addr 127.0.0.1 623
    priv_limit admin
{_ALLOWED}\
    guid a123456789abcdefa123456789abcdef
  endlan
  user 2 true "{USER}" "{PASSWORD}" admin 10 {_AUTHENTICATION}
  chassis_control "{FOLDER}/chassis"
"""
CHASSIS_SCRIPT = """\
#!/bin/sh
# what the BMC asks of the machine: its power is on, and switching it off or round boots it anew
if [ "$1" = get ]; then
  shift
  for what in "$@"; do [ "$what" = power ] && echo power:1 || echo "$what:0"; done
elif [ "$1 $2 $3" = "set power 0" ]; then
  systemctl --no-block reboot --force
fi
"""
SERVICE_UNIT = f"""\
[Service]
ExecStart=/usr/bin/ipmi_sim -c {FOLDER}/lan.conf -f {FOLDER}/commands -s /run/{UNIT} -n
RuntimeDirectory={UNIT}
[Install]
WantedBy=multi-user.target
"""
WRAPPER_SCRIPT = f"""\
#!/bin/sh
# the real ipmitool, asking the simulated BMC
exec /usr/bin/ipmitool -I lanplus -C 3 -H 127.0.0.1 -U {USER} -P {PASSWORD} "$@"
"""
TEMPERATURE, FAN = 0x01, 0x04
_UNITS = {TEMPERATURE: 1, FAN: 18}  # IPMI unit codes: degrees Celsius and RPM


@dataclass(frozen=True, slots=True)
class Sensor:
    """A threshold sensor: kind, reading, and critical limit. A fan's numbers are in hundreds of RPM."""

    name: str
    kind: int
    reading: int
    critical: int


HEALTHY_SENSORS = (Sensor("Inlet Temp", TEMPERATURE, 24, 42), Sensor("FAN1", FAN, 90, 20))
# A power supply event: sensor type and number, sensor-specific, `Failure detected` (IPMI 2.0, table 42-3).
PSU_FAILED = (0x08, 0x51, 0x6F, 0x01)


def build_ipmi_sim_commands(sensors: tuple[Sensor, ...], events: tuple[tuple[int, int, int, int], ...] = ()) -> str:
    """Return ipmi_sim's command file: sensors with their records, and the event log's entries."""
    lines = [f"mc_setbmc {CONTROLLER_ADDRESS}", f"mc_add {CONTROLLER_ADDRESS} 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr"]
    lines.append(f"sel_enable {CONTROLLER_ADDRESS} 1000 0x0a")
    for number, sensor in enumerate(sensors, 1):
        lines += _build_sensor_commands(number, sensor)
    for kind, number, shape, offset in events:
        stamp = "0x80 0x6a 0x10 0x6a"
        lines.append(
            f"sel_add {CONTROLLER_ADDRESS} 0x02 {stamp} 0x20 0x00 0x04 {kind:#04x} {number:#04x} {shape:#04x} {offset:#04x} 0xff 0xff"
        )
    return "\n".join([*lines, f"mc_enable {CONTROLLER_ADDRESS}", ""])


def _build_sensor_commands(number: int, sensor: Sensor) -> list[str]:
    where = f"{CONTROLLER_ADDRESS} 0 {number}"
    limits = (0, sensor.critical, 0, 0, 0, 0) if sensor.kind == FAN else (0, 0, 0, 0, sensor.critical, 0)
    mask = "000010" if sensor.kind == FAN else "010000"
    upper, lower = (0, sensor.critical) if sensor.kind == FAN else (sensor.critical, 0)
    return [
        f"sensor_add {where} {sensor.kind} 1",
        f"sensor_set_threshold {where} readable {mask} {' '.join(map(str, reversed(limits)))}",
        f"sensor_set_event_support {where} enable scanning per-state {' '.join(['0' * 15] * 4)}",
        f"sensor_set_value {where} {sensor.reading} 0",
        f"main_sdr_add {CONTROLLER_ADDRESS} {' '.join(f'{byte:#04x}' for byte in _build_sensor_record(number, sensor, upper, lower))}",
    ]


def _build_sensor_record(number: int, sensor: Sensor, upper: int, lower: int) -> list[int]:
    """A full sensor record (IPMI 2.0, table 43-1)."""
    multiplier = 100 if sensor.kind == FAN else 1
    readable = 0x02 if sensor.kind == FAN else 0x10
    name = sensor.name.encode()
    body = [
        *(0x20, 0, number, 7, number, 0x67, 0x88, sensor.kind, 1),
        *(0, 0, 0, 0, readable, 0),
        *(0, _UNITS[sensor.kind], 0, 0, multiplier, 0, 0, 0, 0, 0),
        *(0, sensor.reading, 255, 0, 255, 0),
        *(0, upper, 0, 0, lower, 0, 0, 0, 0, 0, 0),
        0xC0 | len(name),
        *name,
    ]
    return [0, 0, 0x51, 0x01, len(body), *body]


def start_bmc(
    rack: Rack, node: RackNode, sensors: tuple[Sensor, ...] = HEALTHY_SENSORS, events: tuple[tuple[int, int, int, int], ...] = ()
) -> None:
    """Start the BMC; it survives a reboot of the node. Raises LabRefusal."""
    run_checked_in_node(rack, node, "mkdir", "-p", FOLDER)
    files = {"lan.conf": LAN_CONF, "chassis": CHASSIS_SCRIPT, "commands": build_ipmi_sim_commands(sensors, events)}
    for name, text in files.items():
        run_checked_in_node(rack, node, "sh", "-c", f"cat > {FOLDER}/{name}; chmod 755 {FOLDER}/{name}", stdin=text)
    run_checked_in_node(rack, node, "sh", "-c", f"cat > /etc/systemd/system/{UNIT}.service", stdin=SERVICE_UNIT)
    run_checked_in_node(rack, node, "sh", "-c", f"cat > {WRAPPER}; chmod 755 {WRAPPER}", stdin=WRAPPER_SCRIPT)
    run_checked_in_node(rack, node, "systemctl", "enable", "--quiet", UNIT)
    run_checked_in_node(rack, node, "systemctl", "restart", UNIT)
    wait_until(lambda: run_in_node(rack, node, "ipmitool", "mc", "info").returncode == 0, "ipmi_sim does not answer")


def stop_bmc(rack: Rack, node: RackNode) -> None:
    run_in_node(rack, node, "systemctl", "disable", "--quiet", "--now", UNIT)
    run_in_node(rack, node, "rm", "-rf", WRAPPER, FOLDER, f"/etc/systemd/system/{UNIT}.service")
