"""Devices: GPUs, adapters, buses, disks' own words, the baseboard controller. No setting, no reset, no test."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, use

_ASKED = "-i=LIST --id=LIST"

# fmt: off
READERS: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "nvidia-smi":    (use("", options=f"-q --query -x --xml-format -u --unit -d=NAMES --display=NAMES -L --list-gpus -B --list-excluded-gpus {_ASKED}"
                          " --query-gpu=NAMES --query-compute-apps=NAMES --query-accounted-apps=NAMES --query-remapped-rows=NAMES"
                          " --query-retired-pages=NAMES --query-supported-clocks=NAMES --format=NAMES --version -h --help"),
                      use("topo", options="-m -mp -p2p=NAME -n=NUM -c=NUM -i=LIST --matrix"),
                      use("nvlink", options="-s --status -e --errorcounters -c --capabilities -p --pcibusid -R --remotelinkinfo -info -l=NUM -i=LIST"),
                      use("mig", options="-lgi -lci -lgip -lcip -lgipp -lcipp --list-gpu-instances --list-compute-instances -i=LIST -gi=LIST"),
                      use("c2c|pci", options="-s -e -gErrCnt -gCnt -i=LIST"),
                      use("dmon", options="-s=NAME -c=NUM -d=NUM -o=NAME -i=LIST"),
                      use("pmon", options="-s=NAME -c=NUM -d=NUM -o=NAME -i=LIST"),
                      use("vgpu", options="-q --query -s -c -i=LIST")),
    "dcgmi":         (use("discovery", options="-l -c -v -i=LIST -g=NUM --list --compute-hierarchy"), use("health",
                          options="-c --check -f --fetch -j -g=NUM"),
                      use("nvlink", options="-s -e --link-status --errors -g=NUM -j"), use("topo", options="-g=NUM --gpuid=NUM -j"),
                      use("dmon", options="-e=LIST -c=NUM -d=NUM -i=LIST -g=NUM -l --list"), use("group|fieldgroup|modules|profile", options="-l --list -j"),
                      use("config|policy", options="--get -g=NUM -j"), use("version"), use("", options="-v --version")),
    "nvidia-container-cli": (use("info|list", options="--csv"),),
    "nvidia-ctk":    (use("cdi list"), use("", options="--version")),
    "nvidia-imex-ctl": (use("", options="-N -H -q -j"),),
    "nvidia-debugdump": (use("", options="-l --list"),),
    "nv-fabricmanager": (use("", must="-v --version"),),
    "nv-hostengine": (use("", must="-v --version"),),
    "nvidia-persistenced": (use("", must="--version"),),
    "rocm-smi":      (use("", options="-a -i -t -p -u -f --json --csv --showid --showtemp --showpower --showuse --showmeminfo=NAME --showdriverversion"
                          " --showproductname --showserial --showuniqueid --showxgmierr --showpids --showbus --showvbios --showtopo --showrasinfo"
                          " --showvoltage"),),
    "amd-smi":       (use("list|static|metric|version|bad-pages|topology|firmware|process|xgmi", options="--json --csv -g=LIST --gpu=LIST"),),
    "lspci":         (use("", options="-[vnktbDQqmx] -s=PCI -d=PCI -mm -nn -vv -vvv -PP"),),
    "lsusb":         (use("", options="-[tv] -d=PCI -s=PCI"),),
    "setpci":        (use("REGISTER+", options="-[v] -s=PCI -d=PCI"),),
    "dmidecode":     (use("", options="-[q] -t=NAMES -s=NAME --type=NAMES --string=NAME --quiet --no-sysfs -H=HEX"),),
    "lshw":          (use("", options="-short -businfo -json -xml -html -quiet -numeric -C=NAME -c=NAME -class=NAME -sanitize"),),
    "lscfg":         (use("", options="-[vp]"),),
    "sensors":       (use("NAME*", options="-[ufjA]"),),
    "ipmitool":      (use("sdr", "sdr list|elist NAME?", "sdr type NAME+", "sdr get NAME+", "sensor", "sensor list", "sensor get NAME+", "sel",
                          "sel list|elist|info",
                          "sel list|elist last NUM", "sel list|elist first NUM", "sel time get", "chassis status|poh|restart_cause", "chassis power status",
                          "power status", "fru", "fru print NUM?", "mc info", "bmc info", "mc guid", "mc watchdog get", "dcmi power reading", "dcmi sensors",
                          before="-c -v"),),
    "ipmi-sensors":  (use("", options="-[vq] --comma-separated-output --output-sensor-state --no-header-output --sensor-types=NAMES -t=NAMES"),),
    "ipmi-sel":      (use("", options="-[vq] --comma-separated-output --output-event-state --no-header-output --tail=NUM --info -i"),),
    "bmc-info":      (use(),),
    "ibstat":        (use("NAME?", "NAME NUM", options="-[lsp]"),),
    "ibstatus":      (use("NAME*"),),
    "ibv_devices":   (use(),),
    "ibv_devinfo":   (use("", options="-[lv] -d=NAME -i=NUM"),),
    "ibdev2netdev":  (use("", options="-[v]"),),
    "show_gids":     (use("NAME?"),),
    "ofed_info":     (use("", options="-s -n"),),
    "ibhosts":       (use(),),
    "ibswitches":    (use(),),
    "iblinkinfo":    (use("", options="-[lRDdp] -C=NAME -P=NUM --line --ports-info"),),
    "ibnetdiscover": (use("", options="-[lgHSRp] -C=NAME -P=NUM"),),
    "ibqueryerrors": (use("", options="-[cr] -C=NAME -P=NUM -G=HEX --details --data --counters --switch --ca --suppress-common"),),
    "ibaddr":        (use("NUM?", options="-[glL]"),),
    "sminfo":        (use("NUM?", options="-C=NAME -P=NUM"),),
    "smpquery":      (use("nodeinfo|nodedesc|portinfo|switchinfo|pkeys|sl2vl|vlarb|guids|mepi NUM NUM?", before="-C=NAME -P=NUM -G -D"),),
    "perfquery":     (use("NUM?", "HEX NUM", "NUM NUM", options="-[xXSDclaG] -C=NAME -P=NUM"),),
    "saquery":       (use("", "NR|PIR|SMIR|PR|CPI", options="-[NDSs] -C=NAME -P=NUM"),),
    "mlxconfig":     (use("query|q NAME*", options="", before="-d=ADAPTER --dev=ADAPTER -e"),),
    "mlxlink":       (use("", options="-d=ADAPTER -p=NUM -m -c -e --json --port_type=NAME --show_module --show_counters --show_eye --show_fec"
                          " --show_serdes_tx"
                          " --show_device --show_ber_monitor --show_external_phy --show_links"),),
    "mst":           (use("status|version", options="-v"),),
    "flint":         (use("query|q full?", before="-d=ADAPTER"),),
    "mlxfwmanager":  (use("", must="--query", options="--query-format=NAME -d=ADAPTER"),),
    "mget_temp":     (use("", options="-d=ADAPTER"),),
    "smartctl":      (use("DISK", options="-[aiHAjxc] --all --info --health --attributes --json --xall --capabilities -l=LOG --log=LOG -d=LIST"
                          " --device=LIST"
                          " -n=LIST --nocheck=LIST"), use("", options="--scan --scan-open --version")),
    "nvme":          (use("list|list-subsys", options="-v -o=NAME --output-format=NAME"),
                      use("smart-log|error-log|id-ctrl|id-ns|fw-log|list-ns|list-ctrl|self-test-log|effects-log|endurance-log DISK",
                          options="-o=NAME --output-format=NAME -n=NUM --namespace-id=NUM -H --human-readable -e=NUM"), use("version")),
    "hdparm":        (use("DISK+", must="-I -i -g"),),
}
# fmt: on
