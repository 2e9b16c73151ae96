"""Commands that take more than one tool, as the sh text that stands on the approval card and in the kit.

Values reach them as positional parameters only. They use braces nowhere, so that nothing in them looks like a slot of a row.
"""

RESET_CLOCKS = 'nvidia-smi -i "$1" -rgc && nvidia-smi -i "$1" -rac'

MIG_OFF = 'nvidia-smi mig -i "$1" -dci; nvidia-smi mig -i "$1" -dgi; nvidia-smi -i "$1" -mig 0'
"""Instances first, for they keep the mode; where there are none, those two say so and that is no failure."""

STEP_CLOCK = """unit=chronyd; systemctl cat chronyd.service > /dev/null 2>&1 || unit=chrony
systemctl start "$unit.service" && chronyc waitsync 6 0 0 5; chronyc makestep; status=$?
if [ "$status" -ne 0 ] && chronyc burst 4/4; then sleep 10; fi; exit $status"""
"""A daemon that has just started has no source yet, and would have nothing to step to. Debian calls the unit `chrony`. After a step that
failed chronyd says 0 until it has measured again (4.3), and whoever looked then would take that for success."""

CLEANED_FOLDERS = ("/tmp", "/var/tmp", "/var/crash", "/var/lib/systemd/coredump")  # noqa: S108  # nothing is written there
"""Where old files may go. No logs (they are evidence), no homes, nothing of a container engine."""

CLEANUP = """minutes=$((60 * $1)); shift
find "$@" -xdev -type f -mmin "+$minutes" ! -path "*/systemd-private-*" -delete -ls
df --output=pcent,ipcent /"""
"""find follows no link, goes by open directories and never leaves a file system; a folder that a node lacks is said and is no failure.
Each deleted file is listed by -ls, which escapes blanks and line ends: no file name reads like a tool's refusal."""

RELOAD_DRIVER = """stopped="" unloaded="" status=0
for unit in nvidia-dcgm nvidia-persistenced nvidia-fabricmanager; do
  if systemctl is-active --quiet "$unit.service"; then systemctl stop "$unit.service" && stopped="$unit.service $stopped"; fi
done
loaded=" $(lsmod | cut -d " " -f 1 | tr "\\n" " ") "
for module in nvidia_peermem nvidia_fs gdrdrv nvidia_drm nvidia_modeset nvidia_uvm nvidia; do
  case $loaded in *" $module "*) ;; *) continue ;; esac
  if rmmod "$module"; then unloaded="$module $unloaded"; else status=1; break; fi
done
for module in $unloaded; do modprobe "$module" || status=1; done
for unit in $stopped; do systemctl start "$unit" || status=1; done
exit $status"""
"""Whatever goes wrong half-way, what was unloaded is loaded again and what was stopped is started again."""

REBUILD_DRIVER = """dkms autoinstall && modprobe nvidia && modprobe nvidia-uvm || exit
systemctl restart systemd-modules-load.service
for unit in nvidia-fabricmanager nvidia-persistenced; do
  if systemctl is-enabled --quiet "$unit.service"; then systemctl restart "$unit.service" || exit; fi
done"""
"""The driver for the running kernel, then what failed at boot without it: the other modules, and the services."""

CORDON = """kubectl annotate node "$1" "rackmedic/drained=rackmedic:$2" --overwrite || exit
said=$(kubectl cordon "$1" 2>&1); status=$?; printf "%s\\n" "$said"
case $status$said in
  0*already*) status=1 ;;
  0*) exit 0 ;;
esac
kubectl annotate node "$1" rackmedic/drained-; exit $status"""
"""The mark first: a node that is out of service without one would be nobody's. Where somebody was quicker, the cordon is theirs, and the mark goes."""

UNCORDON = 'kubectl uncordon "$1" && kubectl annotate node "$1" rackmedic/drained-'

EVICT = """said=$(kubectl drain "$1" --ignore-daemonsets --timeout=540s 2>&1); status=$?
case $status in 0) said=$(printf "%s\\n" "$said" | grep -v "will retry") ;; esac
printf "%s\\n" "$said"; exit $status"""
"""No --force and nothing of emptyDir: pods that nobody would start again, or that keep data on the node, are named and stay, and then no pod goes.
A disruption budget that refused for a while and then let it pass is no refusal."""

POWER_CYCLE = "sync; ipmitool chassis power cycle"
