"""Networks: addresses, links, routes, sockets, filters. Nothing is sent, but what a look-up of names sends."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, use

_FAMILY = "-4 -6 -j -json -p -pretty -d -details -s -stats -statistics -o -oneline -br -brief -h -human -r -resolve -f=NAME -family=NAME -n=NAME -c -color"
_SHOW = "show|list|ls|s"

# fmt: off
READERS: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "ip":            (use("addr|address|a|link|l|neigh|neighbour|n|rule|maddr|maddress|route|r|tunnel|netns|vrf|nexthop|mptcp",
                          f"addr|address|a|link|l|neigh|neighbour|n|maddr|maddress {_SHOW} NAME?", f"addr|address|a|link|l|neigh|n|maddr {_SHOW} dev NAME",
                          f"addr|address|a|link|l|neigh|n {_SHOW} up|master|type|nud NAME?", f"route|r|rule|netns|vrf|nexthop|tunnel {_SHOW}",
                          f"route|r {_SHOW} dev|table|default|proto NAME?", f"route|r {_SHOW} ADDRESS", "route|r get ADDRESS",
                          "route|r get ADDRESS from|oif NAME",
                          "xfrm state|policy count", f"mptcp endpoint|limits {_SHOW}", before=_FAMILY),),
    "ethtool":       (use("NAME", options="-i -S -a -k -g -c -m -T -n -l -P -x -u -d -e --json --driver --statistics --show-pause --show-features"
                          " --show-offload"
                          " --show-ring --show-coalesce --module-info --show-time-stamping --show-channels --show-permaddr --show-rxfh --show-fec"
                          " --show-priv-flags --show-eee --phy-statistics --show-module --register-dump --include-statistics -I"),),
    "ss":            (use("", options="-[tulnaempsiowxH460rZbOTl] --tcp --udp --listening --numeric --all --processes --summary --info"
                          " --extended --memory"), use("state NAME", before="-[tulnapxiemo]")),
    "netstat":       (use("", options="-[tulnapsriegcWMv46]"),),
    "bridge":        (use("link|fdb|vlan|mdb|vni", f"link|fdb|vlan|mdb|vni {_SHOW}", "link|fdb|vlan|mdb show dev NAME",
                          before="-j -d -s -c -p -json -details -statistics"),),
    "tc":            (use(f"qdisc|class|filter|actions|chain {_SHOW}", f"qdisc|class|filter {_SHOW} dev NAME", "qdisc",
                          before="-s -d -j -p -statistics -details -json"),),
    "rdma":          (use("dev|link|resource|res|statistic|stat|system|sys", "dev|link|resource|res|system|sys show NAME?",
                          "statistic|stat show|mode NAME?", "statistic|stat show link NAME", "resource|res show qp|mr|cq|cm_id|pd|ctx",
                          before="-j -d -p -json -details -pretty"),),
    "devlink":       (use("dev|port|health|sb|resource|trap|region|dpipe show", "dev info|show|param", "port|health|trap|region|resource show LIST",
                          "dev|port param show",
                          "dev info|show LIST", "dev eswitch show LIST", "health", "port", before="-j -p -v -s -n -json -pretty -verbose"),),
    "ifconfig":      (use("NAME?", options="-a -s -v"),),
    "route":         (use("", options="-[ne46v]"),),
    "arp":           (use("", options="-[anev]"),),
    "nmcli":         (use("device|dev|connection|con|general", "device|dev status", "device|dev show NAME?", "connection|con show NAME?",
                          "general status|hostname|permissions",
                          "networking connectivity", before="-[t] -f=NAMES -g=NAMES -m=NAME --terse --fields=NAMES --get-values=NAMES"),),
    "networkctl":    (use("", "list|status|lldp GLOB*", options="--no-pager --no-legend -a -s", before="--no-pager --no-legend"),),
    "resolvectl":    (use("", "status NAME*", "dns|domain NAME?", "statistics", options="--no-pager", before="--no-pager"),),
    "lldpctl":       (use("", options="-f=NAME"),),
    "brctl":         (use("show|showmacs|showstp NAME?"),),
    "teamdctl":      (use("NAME state|config", "NAME state view|dump"),),
    "iptables":      (use("", "NAME", options="-[LSnvx] -t=NAME --list --list-rules --line-numbers --numeric --verbose --table=NAME"),),
    "ip6tables":     (use("", "NAME", options="-[LSnvx] -t=NAME --list --list-rules --line-numbers --numeric --verbose --table=NAME"),),
    "nft":           (use("list ruleset|tables|chains|sets|flowtables", before="-[ans] -j"),),
    "conntrack":     (use("", must="-S -C -L --stats --count"),),
    "firewall-cmd":  (use("", options="--state --list-all --list-all-zones --get-active-zones --get-default-zone --list-ports --list-services"),),
    "ufw":           (use("status", "status verbose|numbered"),),
    "ipset":         (use("list NAME?", options="-n -t -name -terse"),),
    "ucx_info":      (use("", options="-[vdcbtf]"),),
    "fi_info":       (use("", options="-[lve] -p=NAME"),),
}
# fmt: on
