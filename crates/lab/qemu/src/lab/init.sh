#!/bin/busybox sh
# The first process of the guest: mounts what everything expects, loads the modules of the command channel,
# gives the first console to a shell and serves commands on the channel.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mount -t tmpfs none /run
mkdir -p /dev/hugepages /dev/shm /dev/pts /var
ln -s /run /var/run
mount -t hugetlbfs none /dev/hugepages
mount -t tmpfs none /dev/shm
mount -t devpts none /dev/pts
ip link set lo up
echo -1 > /proc/sys/kernel/sched_rt_runtime_us

while read -r module; do insmod "/modules/$module.ko"; done < /modules/boot

# A shell at normal priority: whether the console answers under load is a measurement.
(while :; do setsid cttyhack sh < /dev/ttyS0 > /dev/ttyS0 2>&1; done) &

for port in /sys/class/virtio-ports/*; do
    if [ "$(cat "$port/name")" = kpps.commands ]; then channel=/dev/${port##*/}; fi
done
exec 3<> "$channel"
# Above every other process, so that looking at counters is prompt even when nothing else is.
chrt -f -p 50 $$ > /dev/null
printf '\001ready\n' >&3
# "ID ! COMMAND" runs at once; "ID - COMMAND" at normal priority. The answer ends in a line that begins with
# byte 1.
while read -r id how command <&3; do
    if [ "$how" = ! ]; then
        (eval "$command") < /dev/null >&3 2>&1
    else
        chrt -o 0 sh -c "$command" < /dev/null >&3 2>&1 3>&-
    fi
    printf '\001%s %s\n' "$id" "$?" >&3
done
poweroff -f
