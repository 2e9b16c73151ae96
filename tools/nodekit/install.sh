#!/bin/sh
# Installs RackMedic's node kit @VERSION@ from this folder. Run as root on a node; running it again upgrades.
set -eu
umask 022
[ "$(id -u)" -eq 0 ] || { echo "run as root" >&2; exit 1; }
cd "$(dirname "$0")"
for tool in flock setsid timeout sync stat sudo visudo; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: install util-linux, coreutils (8.24 or newer) and sudo" >&2; exit 1; }
done
case $(stat -c '%u %A' @DIRECTORY@) in
  "0 "?????-??-?) ;;
  *) echo "@DIRECTORY@ must belong to root and be writable for nobody else" >&2; exit 1 ;;
esac
# '*' instead of '!': no password either, but sshd does not take the account for a locked one
id @USER@ >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh --password '*' @USER@
visudo -cqf sudoers
install -o root -g root -m 0755 rackmedic-look rackmedic-act @DIRECTORY@/
install -d -o root -g root -m 0700 @STATE@
(umask 077 && flock -w 30 @STATE@/lock @DIRECTORY@/rackmedic-act reserve) ||
  echo "no room for records is set aside: once the disk is full, no remedy will run here, not even the one that cleans it up" >&2
install -o root -g root -m 0440 sudoers /etc/sudoers.d/rackmedic
if [ -d /etc/ssh/sshd_config.d ]; then
  install -o root -g root -m 0644 sshd_config /etc/ssh/sshd_config.d/50-rackmedic.conf
  echo "reload sshd to apply /etc/ssh/sshd_config.d/50-rackmedic.conf"
fi
echo "kit @VERSION@ installed; give @USER@ its public key in ~@USER@/.ssh/authorized_keys"
