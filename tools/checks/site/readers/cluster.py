"""What schedules and runs jobs: Slurm, containers, Kubernetes. What would show a secret or a process's environment is none of these ways."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, use

_SLURM = (
    "-[hlaNeRvsjq] -n=NAMES -p=NAMES -t=NAMES -u=NAMES -w=LIST -j=NAMES -A=NAMES -o=TEXT -O=COLUMNS -S=TIME -E=TIME --json --noheader"
    " --parsable2 --format=TEXT"
)
_KUBE = (
    "-o=NAME -o=JSONPATH --output=NAME --output=JSONPATH -n=NAME --namespace=NAME -A --all-namespaces -l=SELECTOR --selector=SELECTOR --no-headers"
    " --field-selector=SELECTOR --show-labels --sort-by=FIELD --context=NAME --request-timeout=NAME"
)
_KINDS = (
    "node|nodes|no|pod|pods|po|event|events|ev|namespace|namespaces|ns|deployment|deployments|deploy|daemonset|daemonsets|ds|statefulset|statefulsets|sts"
    "|replicaset|replicasets|rs|job|jobs|cronjobs|service|services|svc|endpoints|ep|pv|persistentvolumes|pvc|persistentvolumeclaims|storageclass|sc"
    "|resourcequota|quota|limitrange|priorityclass|crd|crds|leases|componentstatuses|cs|runtimeclass|networkpolicies|clusterpolicy|clusterpolicies"
)
_ENGINE = "--no-trunc -q --quiet --format=STATED -n=NUM"
_CONTAINERS = (
    use("ps", options=f"{_ENGINE} -a --all -s --size --filter=LIST -f=LIST"),
    use("images", "image ls", options=f"{_ENGINE} -a --digests"),
    use("info|version", "system df", "network|volume|context ls", options="-f=STATED --format=STATED -v"),
    use("stats NAME*", options="--no-stream --no-trunc --format=STATED -a"),
    use("top|port|diff NAME"),
    use("inspect NAME+", "container|image inspect NAME+", must="-f=STATED --format=STATED", options="--type=NAME -s"),
    use("logs NAME", options="--tail=NUM -n=NUM --since=TIME --until=TIME -t --timestamps"),
)
"""`inspect` shows a container's environment unless one part of it is asked for."""

# fmt: off
READERS: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "scontrol":      (use("ping|version", "show LIST LIST?", options="-[doa] --json --oneliner --details --all",
                          before="-[doa] --json --oneliner --details --all"),),
    "sinfo":         (use("", options=f"{_SLURM} --Node --long --summarize --list-reasons --nodes=LIST --states=NAMES --partition=NAMES"),),
    "squeue":        (use("", options=f"{_SLURM} --me --long --start --nodelist=LIST --states=NAMES --jobs=NAMES --user=NAMES"),),
    "sacct":         (use("", options=f"{_SLURM} -X -P -D --allocations --duplicates --starttime=TIME --endtime=TIME --jobs=NAMES --state=NAMES"
                          " --nodelist=LIST"),),
    "sstat":         (use("", options=f"{_SLURM} -a -P --allsteps --jobs=NAMES"),),
    "sprio":         (use("", options=_SLURM),),
    "sshare":        (use("", options=_SLURM),),
    "sdiag":         (use("", options="--json --all"),),
    "sacctmgr":      (use("show|list NAME NAME*", options="-[nP] --json --noheader --parsable2", before="-[nPr] --json --noheader --parsable2 --readonly"),),
    "qstat":         (use("NAME*", options="-[fnaruQBi]"),),
    "pbsnodes":      (use("NAME*", options="-[aljSv] -F=NAME"),),
    "bhosts":        (use("NAME*", options="-[lwx]"),),
    "bjobs":         (use("NAME*", options="-[lwapr] -u=NAME"),),
    "docker":        _CONTAINERS,
    "podman":        _CONTAINERS,
    "nerdctl":       _CONTAINERS,
    "crictl":        (use("ps|pods|images|info|version|stats|statsp|imagefsinfo", options="-[aqv] -o=NAME --output=NAME --no-trunc --state=NAME"
                          " --name=NAME"),),
    "enroot":        (use("list|version", options="-[f]"),),
    "kubectl":       (use(f"get {_KINDS} OBJECT*", options=_KUBE), use(f"describe {_KINDS} OBJECT?", options=_KUBE),
                          use("top nodes|node|pods|pod OBJECT?", options=_KUBE),
                      use("logs OBJECT OBJECT?", options="-n=NAME --namespace=NAME --tail=NUM --since=NAME -c=NAME --container=NAME --timestamps -p"
                          " --previous"),
                      use("version|api-resources|api-versions|cluster-info", "cluster-info", "rollout status|history LIST",
                          "config current-context|get-contexts",
                          options="-o=NAME --client --request-timeout=NAME -n=NAME --watch=NAME")),
    "kubeadm":       (use("version", "certs check-expiration", options="-o=NAME"),),
    "kubelet":       (use("", must="--version"),),
    "etcdctl":       (use("endpoint health|status", "member list", options="-w=NAME --cluster"),),
    "ompi_info":     (use("", options="--all --parsable --version -a"),),
}
# fmt: on
