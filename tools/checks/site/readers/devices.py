"""Devices: GPUs, adapters, buses, disks, the BMC. No setting, no reset, no test."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, build_usage

_SELECT_OPTIONS = "-i=LIST --id=LIST"

# fmt: off
PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "nvidia-smi":    (build_usage("", options=f"-q --query -x --xml-format -u --unit -d=NAMES --display=NAMES -L --list-gpus -B --list-excluded-gpus {_SELECT_OPTIONS}"
                          " --query-gpu=NAMES --query-compute-apps=NAMES --query-accounted-apps=NAMES --query-remapped-rows=NAMES"
                          " --query-retired-pages=NAMES --query-supported-clocks=NAMES --format=NAMES --version -h --help"),
                      build_usage("topo", options="-m -mp -p2p=NAME -n=NUM -c=NUM -i=LIST --matrix"),
                      build_usage("nvlink", options="-s --status -e --errorcounters -c --capabilities -p --pcibusid -R --remotelinkinfo -info -l=NUM -i=LIST"),
                      build_usage("mig", options="-lgi -lci -lgip -lcip -lgipp -lcipp --list-gpu-instances --list-compute-instances -i=LIST -gi=LIST"),
                      build_usage("c2c|pci", options="-s -e -gErrCnt -gCnt -i=LIST"),
                      build_usage("dmon", options="-s=NAME -c=NUM -d=NUM -o=NAME -i=LIST"),
                      build_usage("pmon", options="-s=NAME -c=NUM -d=NUM -o=NAME -i=LIST"),
                      build_usage("vgpu", options="-q --query -s -c -i=LIST")),
    "dcgmi":         (build_usage("discovery", options="-l -c -v -i=LIST -g=NUM --list --compute-hierarchy"), build_usage("health",
                          options="-c --check -f --fetch -j -g=NUM"),
                      build_usage("nvlink", options="-s -e --link-status --errors -g=NUM -j"), build_usage("topo", options="-g=NUM --gpuid=NUM -j"),
                      build_usage("dmon", options="-e=LIST -c=NUM -d=NUM -i=LIST -g=NUM -l --list"), build_usage("group|fieldgroup|modules|profile", options="-l --list -j"),
                      build_usage("config|policy", options="--get -g=NUM -j"), build_usage("version"), build_usage("", options="-v --version")),
    "nvidia-container-cli": (build_usage("info|list", options="--csv"),),
    "nvidia-ctk":    (build_usage("cdi list"), build_usage("", options="--version")),
    "nvidia-imex-ctl": (build_usage("", options="-N -H -q -j"),),
    "nvidia-debugdump": (build_usage("", options="-l --list"),),
    "nv-fabricmanager": (build_usage("", must="-v --version"),),
    "nv-hostengine": (build_usage("", must="-v --version"),),
    "nvidia-persistenced": (build_usage("", must="--version"),),
    "rocm-smi":      (build_usage("", options="-a -i -t -p -u -f --json --csv --showid --showtemp --showpower --showuse --showmeminfo=NAME --showdriverversion"
                          " --showproductname --showserial --showuniqueid --showxgmierr --showpids --showbus --showvbios --showtopo --showrasinfo"
                          " --showvoltage"),),
    "amd-smi":       (build_usage("list|static|metric|version|bad-pages|topology|firmware|process|xgmi", options="--json --csv -g=LIST --gpu=LIST"),),
    "lspci":         (build_usage("", options="-[vnktbDQqmx] -s=PCI -d=PCI -mm -nn -vv -vvv -PP"),),
    "lsusb":         (build_usage("", options="-[tv] -d=PCI -s=PCI"),),
    "setpci":        (build_usage("REGISTER+", options="-[v] -s=PCI -d=PCI"),),
    "dmidecode":     (build_usage("", options="-[q] -t=NAMES -s=NAME --type=NAMES --string=NAME --quiet --no-sysfs -H=HEX"),),
    "lshw":          (build_usage("", options="-short -businfo -json -xml -html -quiet -numeric -C=NAME -c=NAME -class=NAME -sanitize"),),
    "lscfg":         (build_usage("", options="-[vp]"),),
    "sensors":       (build_usage("NAME*", options="-[ufjA]"),),
    "ipmitool":      (build_usage("sdr", "sdr list|elist NAME?", "sdr type NAME+", "sdr get NAME+", "sensor", "sensor list", "sensor get NAME+", "sel",
                          "sel list|elist|info",
                          "sel list|elist last NUM", "sel list|elist first NUM", "sel time get", "chassis status|poh|restart_cause", "chassis power status",
                          "power status", "fru", "fru print NUM?", "mc info", "bmc info", "mc guid", "mc watchdog get", "dcmi power reading", "dcmi sensors",
                          before="-c -v"),),
    "ipmi-sensors":  (build_usage("", options="-[vq] --comma-separated-output --output-sensor-state --no-header-output --sensor-types=NAMES -t=NAMES"),),
    "ipmi-sel":      (build_usage("", options="-[vq] --comma-separated-output --output-event-state --no-header-output --tail=NUM --info -i"),),
    "bmc-info":      (build_usage(),),
    "ibstat":        (build_usage("NAME?", "NAME NUM", options="-[lsp]"),),
    "ibstatus":      (build_usage("NAME*"),),
    "ibv_devices":   (build_usage(),),
    "ibv_devinfo":   (build_usage("", options="-[lv] -d=NAME -i=NUM"),),
    "ibdev2netdev":  (build_usage("", options="-[v]"),),
    "show_gids":     (build_usage("NAME?"),),
    "ofed_info":     (build_usage("", options="-s -n"),),
    "ibhosts":       (build_usage(),),
    "ibswitches":    (build_usage(),),
    "iblinkinfo":    (build_usage("", options="-[lRDdp] -C=NAME -P=NUM --line --ports-info"),),
    "ibnetdiscover": (build_usage("", options="-[lgHSRp] -C=NAME -P=NUM"),),
    "ibqueryerrors": (build_usage("", options="-[cr] -C=NAME -P=NUM -G=HEX --details --data --counters --switch --ca --suppress-common"),),
    "ibaddr":        (build_usage("NUM?", options="-[glL]"),),
    "sminfo":        (build_usage("NUM?", options="-C=NAME -P=NUM"),),
    "smpquery":      (build_usage("nodeinfo|nodedesc|portinfo|switchinfo|pkeys|sl2vl|vlarb|guids|mepi NUM NUM?", before="-C=NAME -P=NUM -G -D"),),
    "perfquery":     (build_usage("NUM?", "HEX NUM", "NUM NUM", options="-[xXSDclaG] -C=NAME -P=NUM"),),
    "saquery":       (build_usage("", "NR|PIR|SMIR|PR|CPI", options="-[NDSs] -C=NAME -P=NUM"),),
    "mlxconfig":     (build_usage("query|q NAME*", options="", before="-d=ADAPTER --dev=ADAPTER -e"),),
    "mlxlink":       (build_usage("", options="-d=ADAPTER -p=NUM -m -c -e --json --port_type=NAME --show_module --show_counters --show_eye --show_fec"
                          " --show_serdes_tx"
                          " --show_device --show_ber_monitor --show_external_phy --show_links"),),
    "mst":           (build_usage("status|version", options="-v"),),
    "flint":         (build_usage("query|q full?", before="-d=ADAPTER"),),
    "mlxfwmanager":  (build_usage("", must="--query", options="--query-format=NAME -d=ADAPTER"),),
    "mget_temp":     (build_usage("", options="-d=ADAPTER"),),
    "smartctl":      (build_usage("DISK", options="-[aiHAjxc] --all --info --health --attributes --json --xall --capabilities -l=LOG --log=LOG -d=LIST"
                          " --device=LIST"
                          " -n=LIST --nocheck=LIST"), build_usage("", options="--scan --scan-open --version")),
    "nvme":          (build_usage("list|list-subsys", options="-v -o=NAME --output-format=NAME"),
                      build_usage("smart-log|error-log|id-ctrl|id-ns|fw-log|list-ns|list-ctrl|self-test-log|effects-log|endurance-log DISK",
                          options="-o=NAME --output-format=NAME -n=NUM --namespace-id=NUM -H --human-readable -e=NUM"), build_usage("version")),
    "hdparm":        (build_usage("DISK+", must="-I -i -g"),),
}
# fmt: on
