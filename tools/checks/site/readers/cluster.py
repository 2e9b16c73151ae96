"""Slurm, containers, Kubernetes. Usages that show secrets or a process's environment are left out."""

from collections.abc import Mapping

from tools.checks.site.usage import Usage, build_usage

_SLURM_OPTIONS = (
    "-[hlaNeRvsjq] -n=NAMES -p=NAMES -t=NAMES -u=NAMES -w=LIST -j=NAMES -A=NAMES -o=TEXT -O=COLUMNS -S=TIME -E=TIME --json --noheader"
    " --parsable2 --format=TEXT"
)
_KUBECTL_OPTIONS = (
    "-o=NAME -o=JSONPATH --output=NAME --output=JSONPATH -n=NAME --namespace=NAME -A --all-namespaces -l=SELECTOR --selector=SELECTOR --no-headers"
    " --field-selector=SELECTOR --show-labels --sort-by=FIELD --context=NAME --request-timeout=NAME"
)
_KUBERNETES_KINDS = (
    "node|nodes|no|pod|pods|po|event|events|ev|namespace|namespaces|ns|deployment|deployments|deploy|daemonset|daemonsets|ds|statefulset|statefulsets|sts"
    "|replicaset|replicasets|rs|job|jobs|cronjobs|service|services|svc|endpoints|ep|pv|persistentvolumes|pvc|persistentvolumeclaims|storageclass|sc"
    "|resourcequota|quota|limitrange|priorityclass|crd|crds|leases|componentstatuses|cs|runtimeclass|networkpolicies|clusterpolicy|clusterpolicies"
)
_ENGINE_OPTIONS = "--no-trunc -q --quiet --format=STATED -n=NUM"
# `inspect` must name one field, because its full output shows the container's environment.
_CONTAINER_USAGES = (
    build_usage("ps", options=f"{_ENGINE_OPTIONS} -a --all -s --size --filter=LIST -f=LIST"),
    build_usage("images", "image ls", options=f"{_ENGINE_OPTIONS} -a --digests"),
    build_usage("info|version", "system df", "network|volume|context ls", options="-f=STATED --format=STATED -v"),
    build_usage("stats NAME*", options="--no-stream --no-trunc --format=STATED -a"),
    build_usage("top|port|diff NAME"),
    build_usage("inspect NAME+", "container|image inspect NAME+", must="-f=STATED --format=STATED", options="--type=NAME -s"),
    build_usage("logs NAME", options="--tail=NUM -n=NUM --since=TIME --until=TIME -t --timestamps"),
)

# fmt: off
PROGRAM_USAGES: Mapping[str, tuple[Usage, ...]] = {
    #  program         ways in which it only reads
    "scontrol":      (build_usage("ping|version", "show LIST LIST?", options="-[doa] --json --oneliner --details --all",
                          before="-[doa] --json --oneliner --details --all"),),
    "sinfo":         (build_usage("", options=f"{_SLURM_OPTIONS} --Node --long --summarize --list-reasons --nodes=LIST --states=NAMES --partition=NAMES"),),
    "squeue":        (build_usage("", options=f"{_SLURM_OPTIONS} --me --long --start --nodelist=LIST --states=NAMES --jobs=NAMES --user=NAMES"),),
    "sacct":         (build_usage("", options=f"{_SLURM_OPTIONS} -X -P -D --allocations --duplicates --starttime=TIME --endtime=TIME --jobs=NAMES --state=NAMES"
                          " --nodelist=LIST"),),
    "sstat":         (build_usage("", options=f"{_SLURM_OPTIONS} -a -P --allsteps --jobs=NAMES"),),
    "sprio":         (build_usage("", options=_SLURM_OPTIONS),),
    "sshare":        (build_usage("", options=_SLURM_OPTIONS),),
    "sdiag":         (build_usage("", options="--json --all"),),
    "sacctmgr":      (build_usage("show|list NAME NAME*", options="-[nP] --json --noheader --parsable2", before="-[nPr] --json --noheader --parsable2 --readonly"),),
    "qstat":         (build_usage("NAME*", options="-[fnaruQBi]"),),
    "pbsnodes":      (build_usage("NAME*", options="-[aljSv] -F=NAME"),),
    "bhosts":        (build_usage("NAME*", options="-[lwx]"),),
    "bjobs":         (build_usage("NAME*", options="-[lwapr] -u=NAME"),),
    "docker":        _CONTAINER_USAGES,
    "podman":        _CONTAINER_USAGES,
    "nerdctl":       _CONTAINER_USAGES,
    "crictl":        (build_usage("ps|pods|images|info|version|stats|statsp|imagefsinfo", options="-[aqv] -o=NAME --output=NAME --no-trunc --state=NAME"
                          " --name=NAME"),),
    "enroot":        (build_usage("list|version", options="-[f]"),),
    "kubectl":       (build_usage(f"get {_KUBERNETES_KINDS} OBJECT*", options=_KUBECTL_OPTIONS), build_usage(f"describe {_KUBERNETES_KINDS} OBJECT?", options=_KUBECTL_OPTIONS),
                          build_usage("top nodes|node|pods|pod OBJECT?", options=_KUBECTL_OPTIONS),
                      build_usage("logs OBJECT OBJECT?", options="-n=NAME --namespace=NAME --tail=NUM --since=NAME -c=NAME --container=NAME --timestamps -p"
                          " --previous"),
                      build_usage("version|api-resources|api-versions|cluster-info", "cluster-info", "rollout status|history LIST",
                          "config current-context|get-contexts",
                          options="-o=NAME --client --request-timeout=NAME -n=NAME --watch=NAME")),
    "kubeadm":       (build_usage("version", "certs check-expiration", options="-o=NAME"),),
    "kubelet":       (build_usage("", must="--version"),),
    "etcdctl":       (build_usage("endpoint health|status", "member list", options="-w=NAME --cluster"),),
    "ompi_info":     (build_usage("", options="--all --parsable --version -a"),),
}
# fmt: on
