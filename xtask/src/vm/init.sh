#!/bin/busybox sh
# The first process of a guest. The kernel's command line names only the guest; everything else is
# in the shared folder, in settings.N.
#
# The host's root is seen through 9p, read-only below an overlay that is lost at the end. Therefore
# programs that are built on the host run here. The folder of results is shared for writing, under
# the same path as on the host.
#
# Files that the host waits for: ready.N, then code.N. It writes "go" between.
B=/bin/busybox
export PATH=/bin
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
say() { read -r up _ </proc/uptime; echo "vm: $up s: $*"; }
fail() { say "FAILED: $*"; $B sleep 1; $B poweroff -f; }
for word in $($B cat /proc/cmdline); do case $word in vm.id=*) id=${word#vm.id=};; esac; done
for module in $($B cat /modules/order); do $B insmod /modules/$module || fail "cannot load $module"; done

# The host's file system, and the folder that is shared.
p9=trans=virtio,version=9p2000.L
$B mount -t 9p -o $p9,msize=131072,cache=none share /share || fail "no shared folder"
. /share/settings.$id
N=/new share=$N$VM_RESULTS
$B mount -t 9p -o $p9,msize=512000,cache=loose,ro root /lower || fail "the host's root can't be mounted"
$B mount -t tmpfs -o size=50% tmpfs /rw && $B mkdir -p /rw/up /rw/work
$B mount -t overlay -o lowerdir=/lower,upperdir=/rw/up,workdir=/rw/work,redirect_dir=off,index=off,metacopy=off,xino=off overlay $N ||
  fail "no overlay over the host's root"
$B mkdir -p $share $N/dev $N/proc $N/sys $N/tmp $N/run
$B mount --move /dev $N/dev; $B mount --move /sys $N/sys; $B mount --move /share $share
$B mount --move /proc $N/proc; $B mount -t proc proc /proc
$B mount -t tmpfs tmpfs $N/run; $B mkdir -p $N/dev/shm $N/dev/pts
$B mount -t tmpfs tmpfs $N/dev/shm; $B mount -t devpts devpts $N/dev/pts
echo vm$id >$N/proc/sys/kernel/hostname
{ echo "127.0.0.1 localhost"; n=0; for a in $VM_ADDRESSES; do echo "$a vm$n"; n=$((n+1)); done; } >$N/etc/hosts
: >$N/etc/resolv.conf
# Through env, or busybox would take its own programs of the same name.
host() { $B chroot $N /usr/bin/env "$@"; }
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

# The network. Without accept_dad=0 the first GID is tentative for 2 s, and
# address handles time out meanwhile.
for i in all default; do echo 0 >$N/proc/sys/net/ipv6/conf/$i/accept_dad; done
rxe() { host rdma link add $1 type rxe netdev $2 || fail "no Soft-RoCE device on $2"; }
netem() { [ -z "$VM_NETEM" ] || host tc qdisc add dev $1 root netem $VM_NETEM || fail "netem $VM_NETEM"; }
alone() {
  [ ! -e $N/proc/sys/net/ipv6/conf/eth0 ] || echo 0 >$N/proc/sys/net/ipv6/conf/eth0/accept_dad
  host ip addr add $1/24 dev eth0 && host ip link set eth0 mtu $VM_MTU up || fail "eth0"
  rxe rxe0 eth0; netem eth0
}
# Two devices in one guest. Each end of the pair has the other's address as a
# neighbour; rules keep the kernel from answering on the short way inside.
pair() {
  host ip link add eth0 type veth peer name eth1 || fail "no veth pair"
  for i in eth0 eth1; do
    host ip link set $i mtu $VM_MTU up
    echo 1 >$N/proc/sys/net/ipv4/conf/$i/accept_local
    echo 0 >$N/proc/sys/net/ipv4/conf/$i/rp_filter
  done
  echo 1 >$N/proc/sys/net/ipv4/conf/all/accept_local; echo 0 >$N/proc/sys/net/ipv4/conf/all/rp_filter
  host ip addr add $1/32 dev eth0; host ip addr add $2/32 dev eth1
  rxe rxe0 eth0; rxe rxe1 eth1
  host ip rule add pref 10 iif eth0 lookup local; host ip rule add pref 11 iif eth1 lookup local
  host ip rule add pref 20 oif eth0 lookup 101; host ip rule add pref 21 oif eth1 lookup 102
  host ip route add $2/32 dev eth0 src $1 table 101; host ip route add $1/32 dev eth1 src $2 table 102
  host ip neigh replace $2 lladdr $($B cat /new/sys/class/net/eth1/address) dev eth0 nud permanent
  host ip neigh replace $1 lladdr $($B cat /new/sys/class/net/eth0/address) dev eth1 nud permanent
  host ip rule add pref 200 lookup local; host ip rule del pref 0
  # The kernel does the devices' work in its own threads: before polling programs.
  for p in /proc/[0-9]*; do
    read -r name 2>/dev/null <$p/comm && case $name in ksoftirqd*) host chrt -f -p 1 ${p#/proc/};; esac
  done
  netem eth0; netem eth1
}
host ip link set lo up
if [ -n "$VM_PAIR" ]; then pair $VM_ADDRESSES; else alone $VM_ADDRESS; fi
ulimit -l unlimited; ulimit -c 0

# ssh between guests, by a key that only they have.
if [ -e $share/key ] && [ -x $N/usr/sbin/dropbear ]; then
  $B mkdir -p -m 700 $N/root/.ssh $N/etc/dropbear
  $B cp $share/key $N/etc/dropbear/key; $B chmod 600 $N/etc/dropbear/key
  host dropbearkey -y -f /etc/dropbear/key | $B grep ^ssh >$N/root/.ssh/authorized_keys
  key=$($B cut -d ' ' -f 1,2 $N/root/.ssh/authorized_keys)
  n=0; for a in $VM_ADDRESSES; do echo "vm$n $key"; n=$((n+1)); done >$N/root/.ssh/known_hosts
  $B chown 0:0 $N/root; $B chmod 600 $N/root/.ssh/authorized_keys
  # bash reads it at each command that comes by ssh, which may take seconds here.
  : >$N/root/.bashrc
  host dropbear -r /etc/dropbear/key -s -m -p 22 -P /run/dropbear.pid
fi

read -r up _ </proc/uptime
echo $up >$share/ready.$id
if [ -n "$VM_SHELL" ] && [ $id = 0 ]; then
  host bash $VM_RESULTS/command.$id
  echo $? >$share/code.$id
else
  until [ -e $share/go ]; do $B usleep 20000; done
  host bash $VM_RESULTS/command.$id <$N/dev/null >$share/output.$id 2>&1
  code=$?
  for file in $N/sys/class/infiniband/*/ports/1/hw_counters/*; do
    device=${file#$N/sys/class/infiniband/}
    case ${file##*/} in lifespan) ;; *) echo "${device%%/*} ${file##*/} $($B cat $file)";; esac
  done >$share/counters.$id
  $B awk '/^TcpExt/ { for (i = 2; i <= NF; i++) if (name[i] == "TCPOrigDataSent") print "tcp data_segments", $i; else name[i] = $i }' \
    /proc/net/netstat >>$share/counters.$id
  $B dmesg >$share/dmesg.$id
  echo $code >$share/code.new.$id; $B mv $share/code.new.$id $share/code.$id
fi
# The host ends us when all guests are done.
while :; do $B sleep 1000; done
