# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2153
#
# Boot Debian's own kernel, or the one of the kcsan lane, in QEMU, on the host's root or that of
# root.sh, read-only or below overlays. Sourced after lane.sh.
#
# KVT_KVM=1 uses KVM. Without it QEMU emulates, since KVM may be available and still be
# unable to boot this kernel.

# usable_kernel RELEASE: is it there with its headers?
usable_kernel()
{
	[ -e "$ROOT/boot/vmlinuz-$1" ] && [ -e "$ROOT/usr/src/linux-headers-$1/Makefile" ]
}

# Print the kernel that is known to be good, or the newest: a root of ours has one alone. The
# cloud flavour has no 9p.
stock_kernel()
{
	local v good=$STOCK_KERNEL

	[ -z "$ROOT" ] && [ "${KVT_NEWEST:-0}" != 1 ] || good=
	if [ -n "$good" ] && usable_kernel "$good"; then
		echo "$good"
		return
	fi
	for v in $(find "$ROOT/boot" -name 'vmlinuz-*-amd64' | sed 's,.*/vmlinuz-,,' |
			grep -v -e -cloud- -e -rt- | sort -rV); do
		if usable_kernel "$v"; then
			[ -z "$good" ] || say "stock: other kernel than pinned: $v, not $good"
			echo "$v"
			return
		fi
	done
	die 'no Debian kernel with headers found'
}

# vm_prepare LANE: packages, virtme-ng on PATH, $ROOT, and of the kernel: the release
# $KERNEL, the $IMAGE, and $KERNEL_DIR, which modules are built in.
vm_prepare()
{
	"$LANES/deps.sh" "$1"
	PATH=$(venv virtme-ng "virtme-ng==$VIRTME_NG_VERSION"):$PATH
	if [ "$1" = stock-7 ]; then
		ROOT=$("$LANES/root.sh")
		# shellcheck disable=SC2034 # used by lane.sh
		INSIDE=(in_root)
	fi
	if [ "$1" = kcsan ]; then
		KERNEL_DIR=$("$LANES/kernel.sh" kcsan)
		KERNEL=$(cat "$KERNEL_DIR/include/config/kernel.release")
		# Where it is built virtme-ng would look for its modules.
		IMAGE=$OUT/vmlinuz-$KERNEL
		cp "$KERNEL_DIR/arch/x86/boot/bzImage" "$IMAGE"
	else
		KERNEL=$(stock_kernel)
		IMAGE=$ROOT/boot/vmlinuz-$KERNEL
		KERNEL_DIR=/lib/modules/$KERNEL/build
	fi
	say "$1: kernel $KERNEL$([ "${KVT_KVM:-0}" = 1 ] || echo ', emulated')"
}

# in_root CMD...: run CMD in $ROOT, where $OUT and ccache's folder have the paths that
# they have here.
# Other runs may do the same: what is mounted is seen by this one alone.
# shellcheck disable=SC2317 # called through INSIDE
in_root()
{
	local ccache

	mapfile -t ccache < <(env | grep ^CCACHE_)
	mkdir -p "$CCACHE_DIR"
	# shellcheck disable=SC2016
	as_root unshare -m bash -ec '
		root=$1 user=$2
		mount -t proc proc "$root/proc"
		for dir in "$3" "$4"; do
			mkdir -p "$root$dir"
			mount --bind "$dir" "$root$dir"
		done
		shift 4
		exec chroot --userspec="$user" "$root" env -i HOME=/root LC_ALL=C \
			PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin "$@"
		' - "$ROOT" "$(id -u):$(id -g)" "$OUT" "$CCACHE_DIR" "${ccache[@]}" "$@"
}

# An emulated CPU has no fast string operations, which QEMU does byte by byte.
EMULATED_CPU='max,-erms,-fsrm,-fsrs,-fzrm'

# virtme-ng has six of these, with 31 ports each: QEMU looks at all of them whenever it wakes up.
ONE_PORT='-global virtio-serial-device.max_ports=2'

# udev would have every rule of the root look at every device, and load modules for those that
# nobody uses: emulated, that takes most of the time until a machine is up.
UDEV_RULES=$LANES/udev

# vm ARGUMENT...: boot. VM_CPUS is the number of CPUs, 2 without it; VM_MEMORY is the
# memory, 2G; VM_QEMU_OPTS are more options for QEMU.
vm()
{
	local kvm=--disable-kvm cpu="-cpu $EMULATED_CPU"

	[ "${KVT_KVM:-0}" != 1 ] || kvm='' cpu=''
	# Where virtiofsd is installed it would be used, which needs rights.
	vng -r "$IMAGE" --force-9p $kvm --cpus "${VM_CPUS:-2}" -m "${VM_MEMORY:-2G}" --user root \
		${ROOT:+--root "$ROOT"} --cwd "${ROOT:-/}" --rwdir "$OUT=$OUT" \
		--rodir "/usr/lib/udev/rules.d=$UDEV_RULES" \
		--qemu-opts="$cpu $ONE_PORT ${VM_QEMU_OPTS:-}" "$@"
}

# Of every kernel. A host that takes the processor away for long is no stall of the guest's, nor a
# timer that is not connected. An emulated CPU does not speculate, yet what a kernel does against
# that takes a tenth of its time.
KERNEL_ARGS='rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 workqueue.watchdog_thresh=120'
KERNEL_ARGS+=' no_timer_check'
[ "${KVT_KVM:-0}" = 1 ] || KERNEL_ARGS+=' mitigations=off'

# The guest says so before it loads the module.
came_up()
{
	grep -qsa 'kvtree-lane: start' "$CONSOLE"
}

# Once in hundreds of times an emulated machine does not come up, and tells for ever that a CPU is
# stalled: two minutes tell the first time. What a slow one takes is a minute or two.
BOOT_LONGEST=${BOOT_LONGEST:-600}

stop_if_down()
{
	local start=$SECONDS

	while ! came_up; do
		pause 1
		if [ $((SECONDS - start)) -ge "$BOOT_LONGEST" ] || {
				[ ! -e "$CONSOLE.down" ] && grep -qsa 'detected stalls' "$CONSOLE"; }; then
			kill -KILL "$(cat "$CONSOLE.pid")"
			return
		fi
	done
}

# vm_script CMD...: boot, run CMD and power off, kernel messages in $CONSOLE. A machine that
# does not come up is started once more: nothing of kvtree has run in it. The messages of the
# first are kept, and summary() tells of it.
# virtme-ng throws the console away in this mode, unless it is told that the
# file is another. To be called with a pipe as standard output and error: QEMU
# opens these anew, which empties a file, and several times over, so that in a
# file they overwrite each other. VM_QEMU_OPTS are more options for QEMU, VM_ARGS
# arguments for the kernel.
vm_script()
{
	local watch rc

	rm -f "$CONSOLE.down"
	while :; do
		rm -f "$CONSOLE" "$CONSOLE.pid"
		stop_if_down &>/dev/null </dev/null &
		watch=$!
		rc=0
		VM_QEMU_OPTS="-set chardev.console.path=$CONSOLE -pidfile $CONSOLE.pid \
			${VM_QEMU_OPTS:-}" \
			vm --append "ignore_loglevel $KERNEL_ARGS ${VM_ARGS:-}" -- "$@" || rc=$?
		# At a signal that it can catch bash would run what the lane does at its end.
		kill -KILL $watch 2>/dev/null || true
		wait $watch 2>/dev/null || true
		if came_up || [ -e "$CONSOLE.down" ] || [ ! -e "$CONSOLE" ]; then
			return $rc
		fi
		mv "$CONSOLE" "$CONSOLE.down"
	done
}
