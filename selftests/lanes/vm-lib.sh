# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2153
#
# Boot Debian's kernel, or the one of the kcsan lane, in QEMU, on the host's root or that of
# root.sh, read-only or below overlays. Sourced after lane.sh.
#
# KVT_KVM=1 uses KVM. By default QEMU emulates, because KVM may be available and still be
# unable to boot this kernel.

# usable_kernel RELEASE: are this kernel and its headers installed?
usable_kernel()
{
	[ -e "$ROOT/boot/vmlinuz-$1" ] && [ -e "$ROOT/usr/src/linux-headers-$1/Makefile" ]
}

# Print the release of the kernel that is known to work, or of the newest. In the root of root.sh,
# it is the only one. The cloud flavour does not count: it has no 9p.
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

# vm_prepare LANE: install packages, add virtme-ng to PATH, and set ROOT and the kernel's variables:
# KERNEL, its release, IMAGE, and KERNEL_DIR, with which modules are built.
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
		# Copy the image: virtme-ng would look for modules in the build directory.
		IMAGE=$OUT/vmlinuz-$KERNEL
		cp "$KERNEL_DIR/arch/x86/boot/bzImage" "$IMAGE"
	else
		KERNEL=$(stock_kernel)
		IMAGE=$ROOT/boot/vmlinuz-$KERNEL
		KERNEL_DIR=/lib/modules/$KERNEL/build
	fi
	say "$1: kernel $KERNEL$([ "${KVT_KVM:-0}" = 1 ] || echo ', emulated')"
}

# in_root CMD...: run CMD in $ROOT, with $OUT and ccache's folder mounted under the same paths. Only
# CMD sees these mounts, since other runs may use the root too.
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

# Emulate a CPU without fast string operations, because QEMU executes them byte by byte.
EMULATED_CPU='max,-erms,-fsrm,-fsrs,-fzrm'

# Limit the ports of virtio-serial devices: virtme-ng has six, with 31 ports each, and QEMU looks at
# all of them whenever it wakes up.
ONE_PORT='-global virtio-serial-device.max_ports=2'

# These replace udev's rules. With its own, udev would apply every rule to every device, and load
# modules for unused ones, which takes an emulated machine most of the time to boot.
UDEV_RULES=$LANES/udev

# vm ARGUMENT...: boot. VM_CPUS is the number of CPUs (2), VM_MEMORY the memory (2G), and
# VM_QEMU_OPTS has more options for QEMU.
vm()
{
	local kvm=--disable-kvm cpu="-cpu $EMULATED_CPU"

	[ "${KVT_KVM:-0}" != 1 ] || kvm='' cpu=''
	# Force 9p: virtme-ng would use an installed virtiofsd, which needs root.
	vng -r "$IMAGE" --force-9p $kvm --cpus "${VM_CPUS:-2}" -m "${VM_MEMORY:-2G}" --user root \
		${ROOT:+--root "$ROOT"} --cwd "${ROOT:-/}" --rwdir "$OUT=$OUT" \
		--rodir "/usr/lib/udev/rules.d=$UDEV_RULES" \
		--qemu-opts="$cpu $ONE_PORT ${VM_QEMU_OPTS:-}" "$@"
}

# Parameters of every kernel. If the host takes the processor away for long, the kernel must not
# report a stall or a timer that is not connected. An emulated CPU does not speculate, so turn
# mitigations off: they take a tenth of the time.
KERNEL_ARGS='rcupdate.rcu_cpu_stall_timeout=120 watchdog_thresh=60 workqueue.watchdog_thresh=120'
KERNEL_ARGS+=' no_timer_check'
[ "${KVT_KVM:-0}" = 1 ] || KERNEL_ARGS+=' mitigations=off'

# The guest prints this line before it loads the module.
came_up()
{
	grep -qsa 'kvtree-lane: start' "$CONSOLE"
}

# Once in hundreds of boots, an emulated machine does not come up, and reports a stalled CPU again
# and again, the first time after two minutes. A slow machine takes a minute or two to boot. So stop
# the machine at the first report, and at its second boot only after this many seconds.
BOOT_LONGEST=${BOOT_LONGEST:-600}

stop_if_down()
{
	local start=$SECONDS

	while ! came_up; do
		pause 1
		if is_down "$start"; then
			kill -KILL "$(cat "$CONSOLE.pid")"
			return
		fi
	done
}

# is_down START: has the machine that was started then not come up, and will not?
is_down()
{
	! came_up && {
		[ $((SECONDS - $1)) -ge "$BOOT_LONGEST" ] ||
			{ [ ! -e "$CONSOLE.down" ] && grep -qsa 'detected stalls' "$CONSOLE"; }
	}
}

# start_machine CMD...: run CMD, which runs a machine with kernel messages in $CONSOLE, and writes
# QEMU's process number to $CONSOLE.pid.
#
# A machine that does not come up is started once more: none of kvtree's code has run in it. The
# messages of the first are kept, and summary() mentions it.
start_machine()
{
	local watch rc

	rm -f "$CONSOLE.down"
	while :; do
		rm -f "$CONSOLE" "$CONSOLE.pid"
		stop_if_down &>/dev/null </dev/null &
		watch=$!
		rc=0
		"$@" || rc=$?
		# Use SIGKILL: at other signals, this copy of bash would run the lane's exit trap.
		kill -KILL $watch 2>/dev/null || true
		wait $watch 2>/dev/null || true
		if came_up || [ -e "$CONSOLE.down" ] || [ ! -e "$CONSOLE" ]; then
			return $rc
		fi
		mv "$CONSOLE" "$CONSOLE.down"
	done
}

# In this mode, virtme-ng would discard the console's output: this QEMU option sets another file.
# Standard output and error must be pipes. QEMU opens them several times: a file would be truncated,
# and the outputs would overwrite each other.
vm_with_console()
{
	VM_QEMU_OPTS="-set chardev.console.path=$CONSOLE -pidfile $CONSOLE.pid ${VM_QEMU_OPTS:-}" \
		vm --append "ignore_loglevel $KERNEL_ARGS ${VM_ARGS:-}" -- "$@"
}

# vm_script CMD...: boot, run CMD and power off, with kernel messages in $CONSOLE. VM_QEMU_OPTS has
# more options for QEMU, VM_ARGS arguments for the kernel.
vm_script()
{
	start_machine vm_with_console "$@"
}
