"""Shell scripts of remedies, as shown on the card and run by the kit.

Values arrive as positional parameters only. No braces, so nothing looks like a slot.
"""

RESET_CLOCKS = 'nvidia-smi -i "$1" -rgc && nvidia-smi -i "$1" -rac'

# Instances must go first, because they keep MIG on. The first two commands fail harmlessly if there are none.
MIG_OFF = 'nvidia-smi mig -i "$1" -dci; nvidia-smi mig -i "$1" -dgi; nvidia-smi -i "$1" -mig 0'

# A freshly started daemon has no time source yet, hence waitsync. Debian's unit is `chrony`. After a failed step
# chronyd reports offset 0 until the next measurement (4.3), which would look like success; hence burst and sleep.
STEP_CLOCK = """unit=chronyd; systemctl cat chronyd.service > /dev/null 2>&1 || unit=chrony
systemctl start "$unit.service" && chronyc waitsync 6 0 0 5; chronyc makestep; status=$?
if [ "$status" -ne 0 ] && chronyc burst 4/4; then sleep 10; fi; exit $status"""

# Folders from which old files may be deleted. No logs (evidence), no homes, no container engine data.
CLEANED_FOLDERS = ("/tmp", "/var/tmp", "/var/crash", "/var/lib/systemd/coredump")  # noqa: S108  # nothing is written there

# find follows no links, descends through open directories and stays on one file system; a missing folder is reported
# and is not a failure. -ls lists each deleted file and escapes blanks and line ends, so no file name can look like a
# tool's refusal.
CLEANUP = """minutes=$((60 * $1)); shift
find "$@" -xdev -type f -mmin "+$minutes" ! -path "*/systemd-private-*" -delete -ls
df --output=pcent,ipcent /"""

# On any failure, unloaded modules are loaded again and stopped services started again.
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

# Builds the driver for the running kernel, then restarts what failed at boot without it: other modules and services.
REBUILD_DRIVER = """dkms autoinstall && modprobe nvidia && modprobe nvidia-uvm || exit
systemctl restart systemd-modules-load.service
for unit in nvidia-fabricmanager nvidia-persistenced; do
  if systemctl is-enabled --quiet "$unit.service"; then systemctl restart "$unit.service" || exit; fi
done"""

# The mark comes first: without it a cordoned node would have no known owner. If the node was already cordoned, that
# cordon is not ours and the mark is removed.
CORDON = """kubectl annotate node "$1" "rackmedic/drained=rackmedic:$2" --overwrite || exit
said=$(kubectl cordon "$1" 2>&1); status=$?; printf "%s\\n" "$said"
case $status$said in
  0*already*) status=1 ;;
  0*) exit 0 ;;
esac
kubectl annotate node "$1" rackmedic/drained-; exit $status"""

UNCORDON = 'kubectl uncordon "$1" && kubectl annotate node "$1" rackmedic/drained-'

# Without --force and --delete-emptydir-data: if a pod would not be restarted or keeps data on the node, kubectl names
# it and evicts no pod. A disruption budget that delayed an eviction is not a refusal.
EVICT = """said=$(kubectl drain "$1" --ignore-daemonsets --timeout=540s 2>&1); status=$?
case $status in 0) said=$(printf "%s\\n" "$said" | grep -v "will retry") ;; esac
printf "%s\\n" "$said"; exit $status"""

POWER_CYCLE = "sync; ipmitool chassis power cycle"
