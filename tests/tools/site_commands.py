"""Commands of site checks: those refused, by what they would do, and those that on-call people run every day."""

WRITES = """
rm -rf /scratch/x
rmdir /scratch/x
mv /etc/hosts /etc/hosts.old
cp /etc/hosts /scratch/hosts
dd if=/dev/zero of=/dev/sda
tee /etc/motd
truncate -s 0 /var/log/syslog
touch /scratch/x
mkdir /scratch/x
ln -s /etc/passwd /scratch/x
install -m 755 a /usr/bin/b
shred /dev/sda
chmod 777 /etc/slurm
chown nobody /etc/slurm
chattr +i /etc/hosts
setfacl -m u:x:rw /scratch
setfattr -n user.x -v y /scratch
split /var/log/syslog
sort -o /etc/hosts /etc/hosts
sort --output=/etc/hosts /etc/hosts
uniq /etc/hosts /scratch/out
xxd /etc/hosts /scratch/out
tar -xf /scratch/a.tar
gzip /var/log/syslog
gunzip /var/log/syslog.gz
logger hello
wall hello
write root
setpci -s 00:01.0 COMMAND=4
setpci -s 00:01.0 4.w=0
wrmsr 0x1a0 0
wrmsr -a 0x1a0 0
zpool destroy tank
zpool export tank
zpool scrub tank
zpool clear tank
zfs destroy tank/a
zfs set quota=1 tank
devlink dev reload pci/0000:01:00.0
devlink dev param set pci/0000:01:00.0 name x value 1 cmode runtime
devlink health recover pci/0000:01:00.0 reporter fw
devlink port split pci/0000:01:00.0/1 count 2
sysctl -p
sysctl --system
sysctl -w vm.swappiness=1
sysctl vm.swappiness=1
sysctl -n vm.swappiness=1
sysctl --load=/etc/sysctl.conf
dbus-send --system --dest=org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager.Reboot
busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager Reboot
gdbus call --system
systemctl restart nvidia-fabricmanager
systemctl stop slurmd
systemctl mask slurmd
systemctl daemon-reload
systemctl set-property slurmd MemoryMax=1
systemctl edit slurmd
systemctl reset-failed
systemctl kill slurmd
systemctl isolate rescue.target
systemctl --force reboot
systemctl -H other status
systemctl status --host=other
journalctl --vacuum-time=1s
journalctl --vacuum-size 1M
journalctl --rotate
journalctl --flush
journalctl --cursor-file=/etc/x
journalctl --update-catalog
journalctl --setup-keys
dmesg -C
dmesg --clear
dmesg -c
dmesg --read-clear
dmesg -D
dmesg -n 1
dmesg --console-off
nvidia-smi -r
nvidia-smi --gpu-reset -i 0
nvidia-smi -q --gpu-reset
nvidia-smi -pm 1
nvidia-smi --persistence-mode=1
nvidia-smi -pl 300
nvidia-smi -ac 5001,1590
nvidia-smi -lgc 1400
nvidia-smi -rgc
nvidia-smi -c 3
nvidia-smi -e 0
nvidia-smi -p 0
nvidia-smi -mig 1
nvidia-smi -f /etc/x
nvidia-smi -q --filename=/etc/x
nvidia-smi --debug=/etc/x
nvidia-smi mig -cgi 9 -C
nvidia-smi mig -dgi
nvidia-smi nvlink -r 0
nvidia-smi nvlink -re 0
nvidia-smi drain -p 0000:01:00.0 -m 1
nvidia-smi boost-slider --vboost 1
nvidia-smi daemon
nvidia-smi replay -f x
nvidia-smi compute-policy --set-timeslice=2
nvidia-smi pci -cErrCnt
nvidia-settings -a X=1
nvidia-modprobe
nvidia-persistenced
nv-hostengine
nv-hostengine -t
nv-fabricmanager -c /etc/x
nvidia-bug-report.sh
nvidia-debugdump -D -f /etc/x
nvidia-ctk runtime configure
nvidia-container-cli configure --utility /
dcgmi config --set -P 300
dcgmi config --enforce
dcgmi policy --set 0,1
dcgmi health -s a
dcgmi diag -r 3
dcgmi group -c x
dcgmi group -d 1
dcgmi stats -e
dcgmi profile --pause
dcgmi modules --denylist 1
dcgmi -v config --set -P 300
ethtool -s eth0 speed 100
ethtool -K eth0 tso off
ethtool -G eth0 rx 64
ethtool -C eth0 rx-usecs 1
ethtool -L eth0 combined 1
ethtool -r eth0
ethtool -p eth0
ethtool -t eth0
ethtool -E eth0 magic 1
ethtool -f eth0 x
ethtool --reset eth0 all
ethtool --set-priv-flags eth0 a on
ethtool --set-fec eth0 encoding rs
mlxconfig -d mlx5_0 set SRIOV_EN=1
mlxconfig -d mlx5_0 -y set SRIOV_EN=1
mlxconfig -d mlx5_0 reset
mlxconfig -y -d mlx5_0 q set A=1
mlxfwreset -d mlx5_0 reset
mlxfwmanager -u
mlxfwmanager --online -u -d mlx5_0
mlxlink -d mlx5_0 -a DN
mlxlink -d mlx5_0 --pc
mlxreg -d mlx5_0 --set x
mst start
mst restart
flint -d mlx5_0 burn
flint -d mlx5_0 -i x b
flint -d mlx5_0 q full burn
ipmitool chassis power off
ipmitool chassis power cycle
ipmitool power reset
ipmitool raw 0x30 0x70
ipmitool sel clear
ipmitool mc reset cold
ipmitool bmc reset cold
ipmitool user set password 2 x
ipmitool lan set 1 ipaddr 1.2.3.4
ipmitool -H other -U a -P b sdr
ipmitool chassis bootdev pxe
ipmitool sensor thresh x lower 1
ipmitool exec x
ipmitool shell
ipmi-sel --clear
smartctl -t long /dev/sda
smartctl -s on /dev/sda
smartctl -o on /dev/sda
smartctl -X /dev/sda
smartctl -a -t short /dev/sda
smartctl --test=long /dev/sda
smartctl -l scterc,70,70 /dev/sda
smartctl -l scterc,70,70,p /dev/sda
smartctl -lscterc,70,70 /dev/sda
smartctl -al scterc,70,70 /dev/sda
smartctl --log=scterc,70,70 /dev/sda
smartctl --log scterc,reset /dev/sda
smartctl -l scttempint,5 /dev/sda
smartctl -l scttempint,5,p /dev/sda
smartctl -l sasphy,reset /dev/sda
smartctl -l sataphy,reset /dev/sda
nvme format /dev/nvme0n1
nvme reset /dev/nvme0
nvme sanitize /dev/nvme0
nvme fw-download /dev/nvme0 -f x
nvme set-feature /dev/nvme0 -f 1
nvme device-self-test /dev/nvme0
nvme write /dev/nvme0n1
nvme subsystem-reset /dev/nvme0
hdparm -Y /dev/sda
hdparm --security-erase x /dev/sda
mdadm --stop /dev/md0
mdadm --assemble --scan
mdadm -s
mdadm /dev/md0 -f /dev/sda
multipath
multipath -F
iscsiadm -m node -l
tune2fs -c 1 /dev/sda1
tune2fs -l -c 1 /dev/sda1
dumpe2fs -i /dev/sda1
fsck /dev/sda1
e2fsck -n /dev/sda1
mkfs.ext4 /dev/sda1
mount /dev/sda1 /mnt
mount -o remount,rw /
umount /scratch
swapoff -a
swapon /dev/sdb
swapon -a
losetup /dev/loop0 /scratch/x
losetup -d /dev/loop0
dmsetup remove x
lvs --config devices/scan=1
lvremove x
vgchange -an
btrfs subvolume delete /scratch/x
btrfs device stats -z /scratch
btrfs scrub start /scratch
lfs setstripe -c 1 /scratch/x
lfs setquota -u x /scratch
lctl set_param debug=0
lctl clear
lnetctl net add --net tcp
beegfs-ctl --removenode 1
mmchfs x
exportfs -ra
exportfs -u x
showmount -a --exports -x
quotaoff -a
ip link set eth0 down
ip addr add 1.2.3.4/24 dev eth0
ip addr flush dev eth0
ip route del default
ip route flush cache
ip neigh flush all
ip netns add x
ip -batch /etc/x
ip -b /etc/x
ifconfig eth0 down
ifconfig eth0 1.2.3.4
route add default gw 1.2.3.4
arp -d 1.2.3.4
bridge fdb add x dev eth0
tc qdisc add dev eth0 root netem loss 10%
tc qdisc del dev eth0 root
rdma system set netns exclusive
rdma link add x type rxe netdev eth0
nmcli connection down x
nmcli device disconnect eth0
nmcli -s connection show x
networkctl down eth0
resolvectl flush-caches
resolvectl dns eth0 8.8.8.8
resolvectl domain eth0 x
resolvectl domain eth0 x y
resolvectl statistics eth0
iptables -F
iptables -Z -L
iptables -A INPUT -j DROP
nft flush ruleset
nft -f /etc/x
nft add table x
conntrack -D
conntrack -F
firewall-cmd --reload
firewall-cmd --add-port=1/tcp
ufw disable
ipset destroy
ss -K dst 1.2.3.4
ss -D /etc/x
perfquery -R
perfquery -r
perfquery -a -r
perfquery -xr 5 1
ibqueryerrors -k
ibqueryerrors -K
ibportstate 1 1 disable
ibdiagnet
ibnetdiscover --cache /etc/x
sminfo -s 1
sminfo 1 -p 5
opensm
modprobe -r nvidia
rmmod nvidia
insmod x.ko
dkms install nvidia/550
dkms remove nvidia/550 --all
depmod -a
kexec -e
reboot
shutdown -h now
halt
poweroff
init 6
kill -9 1
pkill x
killall x
fuser -k /scratch
fuser -mvk /scratch
renice 1 -p 1
taskset -p 0x1 123
taskset -pc 0-3 123
chrt -f -p 99 123
chrt 1 123
ionice -c 1 -p 123
prlimit --pid=1 --nofile=10
hwclock -w
hwclock --systohc
date -s now
date --set=now
date 010112002026
date -f /etc/x
timedatectl set-time now
timedatectl set-ntp false
hostnamectl set-hostname evil
hostnamectl hostname evil
hostname evil
hostname -F /etc/x
chronyc makestep
chronyc -h other tracking
chronyc burst 1/1
cpupower frequency-set -g performance
cpupower idle-set -D 0
tuned-adm profile x
tuned-adm off
setenforce 0
mcelog
mcelog --daemon
ras-mc-ctl --register-labels
auditctl -D
auditctl -w /etc/x
mokutil --disable-validation
efibootmgr -b 1 -B
efibootmgr -o 1
efibootmgr -n 1
grubby --update-kernel=ALL --args=x
grubby --set-default=x
bootctl install
rpm -i x.rpm
rpm -e x
rpm -U x.rpm
rpm -qi x --eval x
rpm --import /etc/x
dpkg -i x.deb
dpkg -r x
dpkg --configure -a
apt-get install x
apt install x
yum install x
dnf remove x
snap install x
pip install x
ldconfig
ldconfig -C /etc/x
update-alternatives --set x /usr/bin/y
crontab -r
at now
loginctl terminate-user x
loginctl kill-session 1
coredumpctl dump -o /etc/x
coredumpctl gdb
systemd-tmpfiles --clean
localectl set-locale x
useradd x
passwd x
scontrol update node=x state=drain
scontrol reconfigure
scontrol shutdown
scontrol show node n1 update
scontrol write config
scontrol requeue 1
scancel 1
sacctmgr delete user x
sacctmgr -i add user x
sacctmgr show user x -i add
sdiag -r
sdiag --reset
docker run x
docker rm x
docker stop x
docker kill x
docker exec x id
docker cp x:/a /b
docker system prune -f
docker pull x
docker -H tcp://other:2375 ps
docker network create x
podman run x
crictl rm x
crictl exec x id
nerdctl run x
ctr run x
kubectl delete pod x
kubectl drain n1
kubectl cordon n1
kubectl apply -f x
kubectl exec x -- id
kubectl cp x:/a /b
kubectl edit node x
kubectl patch node x -p y
kubectl label node x a=b
kubectl scale deploy x --replicas=0
kubectl rollout restart deploy x
kubectl run x --image=y
kubectl config set-context x
kubectl cluster-info dump
kubectl --kubeconfig=/etc/x get nodes
kubectl get --raw=/api/v1/secrets
helm upgrade x y
etcdctl put a b
etcdctl del a
ceph osd out 1
weka cluster stop
lscpu --output=/etc/passwd
iostat -o /etc/x
sar -o /etc/x
top -b -n 1 -S /etc/x
lshw -dump /etc/x
dmidecode --dump-bin /etc/x
lspci -G -H1
lspci -p /etc/x -A dump
openssl x509 -in /etc/ssl/certs/a.pem -out /etc/x
openssl enc -in /etc/hosts -out /etc/x
du --files0-from=/etc/shadow
find /scratch -delete
find /scratch -fprint /etc/x
find /scratch -fls /etc/x
"""

STARTS = """
sh -c id
/bin/sh -c id
bash x
dash x
busybox sh
busybox.static sh
/usr/bin/busybox.static sh
toybox sh
python3 -c x
python3.11 x
perl -e x
ruby -e x
lua x
node x
php x
tclsh x
expect x
awk '{print}'
awk 'BEGIN{system("id")}'
gawk 'BEGIN{system("id")}'
mawk x
sed -i s/a/b/ f
sed -n '1w /etc/x' /etc/hosts
sed '1e id' /etc/hosts
sed p /etc/hosts
bc
gdb -p 1
strace -p 1
ltrace id
sudo cat /etc/hosts
su -c id
doas id
pkexec id
runuser -u root id
env cat /etc/hosts
env FOO=1 cat /etc/hosts
FOO=1 cat /etc/hosts
LD_PRELOAD=/x.so cat /etc/hosts
xargs rm
xargs -a /etc/hosts rm
parallel id
nohup id
setsid id
timeout 1 id
nice id
nice -n 5 id
ionice id
chrt -r 1 id
taskset 1 id
taskset -c 1 id
numactl -N 0 id
chroot / id
unshare id
nsenter -t 1 -m id
setpriv id
capsh --print -- -c id
capsh -- -c id
script -c id /etc/x
watch id
time id
flock /x id
stdbuf -o0 id
eval id
exec id
source x
. x
ssh other id
scp a b:c
sftp other
rsync -a /etc/ other:/x
rsync -e id a b
telnet other
nc -l 1
ncat -e id
socat x y
curl http://x
curl -o /etc/x http://x
curl file:///etc/shadow
wget http://x
wget -O /etc/x http://x
pdsh -w a id
clush -a id
ansible all -m shell
salt '*' cmd.run id
systemd-run id
systemd-analyze verify x
batch
find / -exec id
find / -execdir id
find / -ok id
find / -name x -exec id {} +
locate x
make x
cmake x
git log
git -c core.pager=id log
git -c core.fsmonitor=id status
git diff --ext-diff
less /var/log/syslog
more /var/log/syslog
most /var/log/syslog
man ls
man -P id ls
vi x
vim -c x
view x
nano x
ed x
emacs x
tmux
screen
mpirun id
srun id
sbatch x
salloc
torchrun x
/lib64/ld-linux-x86-64.so.2 /bin/id
ld.so /bin/id
ip netns exec x id
ip vrf exec x id
ip -all netns exec id
tar --to-command=id -xf x
tar -cf x --checkpoint=1 --checkpoint-action=exec=id x
tar -I id -cf x x
zip x x -T -TT id
dpkg-query --admindir=/x -l
rpm -q --pipe id
rpm --eval '%(id)'
apt-get -o APT::Update::Pre-Invoke::=id update
apt-cache -c /x policy
journalctl --pager-end -f
systemctl --pager x
lxc exec x id
docker run --rm -v /:/x y id
kubectl debug node/x
turbostat id
cpupower monitor id
perf stat id
perf record -a
bpftrace x
tcpdump -z id
trace-cmd record id
top -b -n 1 --exec id
mlocate x
split --filter=id x
sort --compress-program=id x
grep --include=x -f /etc/shadow x
wish x
jq -n env
m4 x
dc -e x
openssl engine x
ssh-keygen -D x
/home/me/x
../x
./x
-x
/usr/local/bin/check.sh
/opt/site/bin/health --json
health
/opt/../bin/sh
/usr/bin/../bin/sh
/bin//sh
"""

SECRETS = """
cat /etc/shadow
egrep -r BEGIN /opt
fgrep -r PRIVATE /data
egrep -ra . /sys/bus/pci
egrep -ir x /opt
grep -r x /opt
grep -R x /opt
diff /opt/a /opt/b
diff -r /opt/a /opt/b
cat /proc/bus/pci/00/00.0
od -c /proc/bus/usb/001/001
cat /proc/sys/net/ipv4/tcp_fastopen_key
sysctl net.ipv4.tcp_fastopen_key
sysctl -n net/ipv4/tcp_fastopen_key
sysctl net.ipv6.conf.all.stable_secret
cat /proc/sys/net/ipv6/conf/all/stable_secret
sysctl -a -r fastopen_key
sysctl -a --pattern=fastopen_key
sysctl vm.swappiness net.ipv4.tcp_fastopen_key
cat /opt/app/signing_key
cat /etc/gshadow
cat /etc/sudoers
head -n 1 /etc/shadow
tail /etc/shadow
tac /etc/shadow
grep root /etc/shadow
grep '' /etc/shadow
cut -d: -f2 /etc/shadow
od -c /etc/shadow
strings /etc/shadow
diff /etc/hosts /etc/shadow
wc -c /etc/shadow
nl /etc/shadow
md5sum /etc/shadow
cat /etc/hosts /etc/shadow
cat /etc/../etc/shadow
cat /proc/../etc/shadow
cat /var/log/../../etc/shadow
cat /proc/self/root/etc/shadow
cat /proc/1/root/etc/shadow
cat /proc/1/cwd/x
cat /proc/1/environ
cat /proc/self/environ
cat /proc/1/mem
cat /proc/1/fd/3
cat /proc/kcore
cat /proc/kmsg
cat /dev/sda
cat /dev/mem
cat /dev/watchdog
cat /dev/nvidia0
cat /root/.ssh/id_rsa
cat /root/.bash_history
cat /home/me/.ssh/id_ed25519
cat /home/me/.aws/credentials
cat /home/me/.netrc
cat /etc/ssh/ssh_host_rsa_key
cat /etc/munge/munge.key
cat /etc/krb5.keytab
cat /etc/slurm/slurmdbd.conf
cat /etc/kubernetes/admin.conf
cat /etc/kubernetes/pki/ca.key
cat /var/lib/kubelet/pki/kubelet.key
cat /run/secrets/token
cat /var/run/secrets/kubernetes.io/serviceaccount/token
cat /etc/ssl/private/x.key
cat /opt/app/.env
cat /opt/app/credentials.json
cat /shared/team/id_rsa
cat /shared/team/tls.key
cat /scratch/x/token
cat /etc/rackmedic/id_ed25519
cat /etc/wpa_supplicant/x
cat /etc/NetworkManager/system-connections/x
cat /etc/containerd/config.toml
cat /var/log/btmp
cat /sys/kernel/debug/x
cat /sys/kernel/tracing/trace_pipe
cat /sys/bus/pci/devices/0000:01:00.0/rom
cat etc/shadow
cat ~/.ssh/id_rsa
cat -
find /root/.ssh
ls /root/.ssh
getent shadow
getent gshadow root
ps eww
ps auxe
ps auxeww
ps -eo pid,environ
ps -eo env
docker inspect x
docker inspect -f '{{.Config.Env}}' x
docker inspect --format={{json .}} x
docker exec x env
docker top x e
kubectl get secrets
kubectl get secret x -o yaml
kubectl get pods,secrets
kubectl get nodes secret/x
kubectl get all
kubectl describe secret x
kubectl describe secrets
kubectl get configmaps
kubectl config view --raw
kubectl get pods --as=admin
kubectl exec x -- env
crictl inspect x
systemctl show-environment
systemctl show -p Environment x
systemctl show --property=Environment x
systemctl show -p Id,Environment x
env
printenv
set
export
openssl rsa -in /etc/ssl/private/x.key
openssl x509 -in /etc/shadow
gpg --export-secret-keys
keyctl list @u
cryptsetup luksDump /dev/sda
dmsetup table --showkeys
helm get values x
etcdctl get / --prefix
redis-cli keys '*'
vault read x
aws s3 ls
ipmitool user list
ipmitool lan print
nmcli --show-secrets connection show x
wg show
scontrol token
"""

SHELL = """
cat /etc/hosts '|' tee b
cat /etc/hosts '>' b
cat '<' /etc/hosts
cat '/etc/hosts;reboot'
cat '$(id)'
cat '`id`'
cat '${HOME}/x'
cat '$HOME/x'
cat /etc/hosts '&&' id
cat /etc/hosts '&' id
cat '/etc/hosts '
cat ''
grep 'a|b' /etc/hosts
echo x '>' /etc/y
"""

READS = """
cat /proc/mounts
cat /proc/meminfo
cat /proc/cmdline
cat /proc/driver/nvidia/version
cat /proc/driver/nvidia/gpus/0000:01:00.0/information
cat /proc/net/bonding/bond0
cat /proc/bus/pci/devices
cat /proc/bus/input/devices
cat /sys/class/infiniband/mlx5_0/ports/1/pkeys/0
cat /proc/sys/vm/nr_hugepages
cat /proc/pressure/memory
cat /proc/1234/status
cat /sys/class/infiniband/mlx5_0/ports/1/state
cat /sys/class/net/eth0/operstate
cat /sys/devices/system/node/node0/meminfo
cat /sys/module/nvidia/version
cat /sys/block/nvme0n1/queue/scheduler
cat /etc/os-release
cat /etc/fstab
cat /etc/slurm/slurm.conf
cat /etc/docker/daemon.json
cat /etc/modprobe.d/nvidia.conf
cat /opt/site/version
cat /var/log/site.log
grep -i error /var/log/site.log
grep -c 'NVRM: Xid' /var/log/kern.log
grep -E -m 5 oom /var/log/syslog
head -n 1 /proc/loadavg
tail -n 100 /var/log/site.log
tail -100 /var/log/site.log
wc -l /proc/net/tcp
stat /scratch
stat -f -c %T /scratch
ls -l /dev/infiniband
ls /dev/shm
ls -la /var/crash
df --output=source,pcent
df -h
df -i /scratch
df -hT /dev/shm
du -sh /var/log
du -s --max-depth=1 /scratch
find /var/crash -maxdepth 1 -type f -mtime -1
readlink -f /dev/disk/by-id/nvme-eui.1
mountpoint -q /scratch
test -e /run/reboot-required
sha256sum /etc/slurm/slurm.conf
uname -r
uname -a
uptime
nproc
hostname -f
date +%s
date -u
free -m
vmstat 1 2
iostat -x 1 2
mpstat -P ALL 1 1
numactl -H
numastat
lscpu
lscpu -J
lsmem --summary
ps aux
ps -ef
ps -eo pid,stat,wchan,comm
ps -eo pid,pcpu,args --sort=-pcpu
pgrep -f slurmd
top -b -n 1
lsblk -J
lsblk -o NAME,SIZE,MOUNTPOINT
findmnt -no options /
findmnt -J
mount
mount -t nfs4
swapon --show
lsmod
modinfo -F version nvidia
dkms status
sysctl -n vm.swappiness
sysctl -a
sysctl net.ipv4.tcp_rmem
sysctl net.ipv4.tcp_fastopen
sysctl net.ipv4.tcp_keepalive_time
egrep -i error /var/log/site.log
dmesg --decode --time-format iso
dmesg -T -l err,warn
journalctl -u x --since=-1h --no-pager -o json
journalctl -k -b -p err --no-pager
journalctl -u slurmd -n 50 --no-pager
journalctl -k -b -1 --since "1 hour ago"
systemctl is-active nvidia-dcgm
systemctl show -p Id,SubState x
systemctl status slurmd
systemctl --failed --no-legend
systemctl list-units --state=failed --plain --no-legend
systemctl is-enabled nvidia-persistenced
timedatectl
chronyc tracking
chronyc -n sources
ntpq -pn
nvidia-smi
nvidia-smi -q -x
nvidia-smi -L
nvidia-smi -q -d ECC,PAGE_RETIREMENT
nvidia-smi -i 0 -q
nvidia-smi --query-gpu=index,temperature.gpu --format=csv,noheader
nvidia-smi --query-compute-apps=pid,used_memory --format=csv
nvidia-smi topo -m
nvidia-smi nvlink -s
nvidia-smi nvlink -e -i 0
nvidia-smi mig -lgi
nvidia-smi dmon -c 1
nvidia-smi pmon -c 1
nvidia-smi vgpu -q
dcgmi discovery -l
dcgmi health -c -g 0
dcgmi nvlink -s
dcgmi topo -g 0
dcgmi -v
lspci
lspci -vvv -s 0000:9b:00.0
lspci -nnk -d 10de:
lsusb -t
setpci -s 00:01.0 COMMAND
dmidecode -t memory
lshw -short
sensors -u
ipmitool sel elist
ipmitool sdr type Fan
ipmitool sdr elist
ipmitool chassis status
ipmitool dcmi power reading
ipmitool -c sdr
ibstat
ibstat mlx5_0 1
ibv_devinfo -v -d mlx5_0
iblinkinfo -l
ibqueryerrors
perfquery -x
perfquery -x 5 1
smpquery portinfo 5 1
ibdev2netdev
ofed_info -s
mlxconfig -d mlx5_0 query
mlxconfig -d 0000:01:00.0 -e q SRIOV_EN
mlxlink -d mlx5_0 -m -c -e
mst status
flint -d mlx5_0 q
ip -j link show
ip -s -j link show dev eth0
ip addr
ip -br addr show
ip route get 1.1.1.1
ip rule show
ip neigh show
ethtool eth0
ethtool -i eth0
ethtool -S eth0
ethtool -m eth0
ethtool --show-fec eth0
ss -tlnp
ss -s
netstat -s
tc -s qdisc show dev eth0
rdma link show
rdma -j res show
devlink dev info
devlink health show
nmcli device status
lldpctl
resolvectl status
resolvectl status eth0 eth1
resolvectl dns
resolvectl dns eth0
resolvectl domain
resolvectl statistics
iptables -L -n -v
nft list ruleset
conntrack -C
smartctl -a /dev/nvme0
smartctl -H /dev/sda
smartctl -l error -l selftest /dev/sda
smartctl -l scterc /dev/sda
smartctl --log=xerror,10,error /dev/sda
smartctl -l gplog,0x04 /dev/sda
smartctl -l sataphy /dev/sda
smartctl -l devstat,1 /dev/sda
nvme list
nvme smart-log /dev/nvme0 -o json
zpool status -x
zfs list
mdadm --detail /dev/md0
lvs --noheadings
multipath -ll
nfsstat -c
showmount -e nfs1
lfs df /scratch
lfs df -h
lfs check servers
lctl get_param llite.*.stats
lctl dl
lnetctl net show
beegfs-ctl --listnodes --nodetype=storage
mmgetstate -a
scontrol show node n1
scontrol show config
scontrol show hostnames gpu-[001-004]
scontrol ping
sinfo -N -l
sinfo -R
sinfo -h -o '%N %T'
squeue -w n1
squeue -o '%i %T %N'
sacct -j 1234 --format=JobID,State
sdiag
docker ps -a
docker info
docker ps --format '{{.Names}} {{.Status}}'
docker inspect -f '{{.State.Status}}' x
docker stats --no-stream
docker images
docker logs --tail 20 x
crictl ps -a
kubectl get nodes -o wide
kubectl get nodes -o json
kubectl get pods -A
kubectl get pods -n gpu-operator -o wide
kubectl get pods --field-selector=spec.nodeName=n1 -A
kubectl describe node n1
kubectl top nodes
kubectl get events -A --sort-by=.lastTimestamp
kubectl version
rpm -q nvidia-driver
rpm -qa
dpkg -l nvidia-driver-550
dpkg -s slurm
ldconfig -p
getent hosts nfs1
getent passwd root
rdmsr -a 0x1a0
cpupower frequency-info
tuned-adm active
ras-mc-ctl --summary
edac-util -s
getenforce
lsof -nP -i
who
last -n 5
openssl x509 -in /etc/ssl/certs/site.pem -noout -enddate
ucx_info -d
nvcc --version
/usr/bin/cat /proc/mounts
/usr/sbin/lspci
/opt/mellanox/bin/mlxlink -d mlx5_0 -m
/usr/lpp/mmfs/bin/mmgetstate -a
"""
