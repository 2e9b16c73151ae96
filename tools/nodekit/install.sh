#!/bin/sh
# Installs RackMedic's node kit @VERSION@ from this folder. Run as root on a node; running it again upgrades.
set -eu
[ "$(id -u)" -eq 0 ] || { echo "run as root" >&2; exit 1; }
cd "$(dirname "$0")"
id @USER@ >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh @USER@
visudo -cqf sudoers
install -o root -g root -m 0755 rackmedic-look rackmedic-act @DIRECTORY@/
install -d -o root -g root -m 0700 @STATE@
install -o root -g root -m 0440 sudoers /etc/sudoers.d/rackmedic
if [ -d /etc/ssh/sshd_config.d ]; then
  install -o root -g root -m 0644 sshd_config /etc/ssh/sshd_config.d/50-rackmedic.conf
  echo "reload sshd to apply /etc/ssh/sshd_config.d/50-rackmedic.conf"
fi
echo "kit @VERSION@ installed; give @USER@ its public key in ~@USER@/.ssh/authorized_keys"
