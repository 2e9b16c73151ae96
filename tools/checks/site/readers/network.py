"""Networks: addresses, links, routes, sockets, filters. Nothing is sent except name lookups."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, build_usage

_IP_OPTIONS = "-4 -6 -j -json -p -pretty -d -details -s -stats -statistics -o -oneline -br -brief -h -human -r -resolve -f=NAME -family=NAME -n=NAME -c -color"
_SHOW_WORDS = "show|list|ls|s"

# fmt: off
PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "ip":            (build_usage("addr|address|a|link|l|neigh|neighbour|n|rule|maddr|maddress|route|r|tunnel|netns|vrf|nexthop|mptcp",
                          f"addr|address|a|link|l|neigh|neighbour|n|maddr|maddress {_SHOW_WORDS} NAME?", f"addr|address|a|link|l|neigh|n|maddr {_SHOW_WORDS} dev NAME",
                          f"addr|address|a|link|l|neigh|n {_SHOW_WORDS} up|master|type|nud NAME?", f"route|r|rule|netns|vrf|nexthop|tunnel {_SHOW_WORDS}",
                          f"route|r {_SHOW_WORDS} dev|table|default|proto NAME?", f"route|r {_SHOW_WORDS} ADDRESS", "route|r get ADDRESS",
                          "route|r get ADDRESS from|oif NAME",
                          "xfrm state|policy count", f"mptcp endpoint|limits {_SHOW_WORDS}", before=_IP_OPTIONS),),
    "ethtool":       (build_usage("NAME", options="-i -S -a -k -g -c -m -T -n -l -P -x -u -d -e --json --driver --statistics --show-pause --show-features"
                          " --show-offload"
                          " --show-ring --show-coalesce --module-info --show-time-stamping --show-channels --show-permaddr --show-rxfh --show-fec"
                          " --show-priv-flags --show-eee --phy-statistics --show-module --register-dump --include-statistics -I"),),
    "ss":            (build_usage("", options="-[tulnaempsiowxH460rZbOTl] --tcp --udp --listening --numeric --all --processes --summary --info"
                          " --extended --memory"), build_usage("state NAME", before="-[tulnapxiemo]")),
    "netstat":       (build_usage("", options="-[tulnapsriegcWMv46]"),),
    "bridge":        (build_usage("link|fdb|vlan|mdb|vni", f"link|fdb|vlan|mdb|vni {_SHOW_WORDS}", "link|fdb|vlan|mdb show dev NAME",
                          before="-j -d -s -c -p -json -details -statistics"),),
    "tc":            (build_usage(f"qdisc|class|filter|actions|chain {_SHOW_WORDS}", f"qdisc|class|filter {_SHOW_WORDS} dev NAME", "qdisc",
                          before="-s -d -j -p -statistics -details -json"),),
    "rdma":          (build_usage("dev|link|resource|res|statistic|stat|system|sys", "dev|link|resource|res|system|sys show NAME?",
                          "statistic|stat show|mode NAME?", "statistic|stat show link NAME", "resource|res show qp|mr|cq|cm_id|pd|ctx",
                          before="-j -d -p -json -details -pretty"),),
    "devlink":       (build_usage("dev|port|health|sb|resource|trap|region|dpipe show", "dev info|show|param", "port|health|trap|region|resource show LIST",
                          "dev|port param show",
                          "dev info|show LIST", "dev eswitch show LIST", "health", "port", before="-j -p -v -s -n -json -pretty -verbose"),),
    "ifconfig":      (build_usage("NAME?", options="-a -s -v"),),
    "route":         (build_usage("", options="-[ne46v]"),),
    "arp":           (build_usage("", options="-[anev]"),),
    "nmcli":         (build_usage("device|dev|connection|con|general", "device|dev status", "device|dev show NAME?", "connection|con show NAME?",
                          "general status|hostname|permissions",
                          "networking connectivity", before="-[t] -f=NAMES -g=NAMES -m=NAME --terse --fields=NAMES --get-values=NAMES"),),
    "networkctl":    (build_usage("", "list|status|lldp GLOB*", options="--no-pager --no-legend -a -s", before="--no-pager --no-legend"),),
    "resolvectl":    (build_usage("", "status NAME*", "dns|domain NAME?", "statistics", options="--no-pager", before="--no-pager"),),
    "lldpctl":       (build_usage("", options="-f=NAME"),),
    "brctl":         (build_usage("show|showmacs|showstp NAME?"),),
    "teamdctl":      (build_usage("NAME state|config", "NAME state view|dump"),),
    "iptables":      (build_usage("", "NAME", options="-[LSnvx] -t=NAME --list --list-rules --line-numbers --numeric --verbose --table=NAME"),),
    "ip6tables":     (build_usage("", "NAME", options="-[LSnvx] -t=NAME --list --list-rules --line-numbers --numeric --verbose --table=NAME"),),
    "nft":           (build_usage("list ruleset|tables|chains|sets|flowtables", before="-[ans] -j"),),
    "conntrack":     (build_usage("", must="-S -C -L --stats --count"),),
    "firewall-cmd":  (build_usage("", options="--state --list-all --list-all-zones --get-active-zones --get-default-zone --list-ports --list-services"),),
    "ufw":           (build_usage("status", "status verbose|numbered"),),
    "ipset":         (build_usage("list NAME?", options="-n -t -name -terse"),),
    "ucx_info":      (build_usage("", options="-[vdcbtf]"),),
    "fi_info":       (build_usage("", options="-[lve] -p=NAME"),),
}
# fmt: on
