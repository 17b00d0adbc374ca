# SPDX-License-Identifier: GPL-2.0
#
# kvtree: module, library, tool, server and tests. "make help" lists the targets.

KDIR    ?= /lib/modules/$(shell uname -r)/build
PREFIX  ?= /usr/local
UDEVDIR ?= /usr/lib/udev/rules.d
UNITDIR ?= /usr/lib/systemd/system

LANES := selftests/lanes

# Do not pass all variables of the command line to other makes: only these are for all,
# and KVT_CFLAGS, KVT_TESTS and KVTREE_BWTREE for the module.
MAKEOVERRIDES :=
MAKEFLAGS += --no-print-directory
pass = $(foreach v,$(1),$(if $(filter command,$(origin $(v))),$(v)='$($(v))'))
KBUILD = $(MAKE) -C $(KDIR) M=$(CURDIR) \
	$(call pass,V ARCH CROSS_COMPILE CC LLVM C CF KVT_CFLAGS KVT_TESTS KVTREE_BWTREE)
SUBMAKE = $(MAKE) $(call pass,CC CROSS_COMPILE CFLAGS LDFLAGS libdir mandir PYTHON GO)

export PREFIX DESTDIR UDEVDIR UNITDIR V T ENGINE AT_ONCE KVT_CFLAGS FUZZ_TIME ICOUNT BENCH_ARGS \
	BENCH_UML_ARGS BENCH_MEMORY BENCH_DISK_MB RELEASES CRASH_SEED HISTORY_SEED TURN \
	KVT_NEWEST KVT_SHORT KVT_WHOLE KVT_QUICK

.PHONY: all modules try-modules lib tools server examples man selftests install install-module \
	install-server uninstall deb demo vm docs help \
	check check-quick check-uml check-debug check-stock check-stock7 check-kcsan \
	check-arm64 check-weak check-crash check-fuzz check-history check-hibernate check-user \
	check-broken check-deb fuzz \
	lint bench bench-stock bench-bpf bench-log bench-net clean

all: lib tools try-modules

modules:
	@test -e $(KDIR)/Makefile || { \
		echo "No kernel headers in $(KDIR)." >&2; \
		echo "Install them (Debian: linux-headers-\$$(uname -r))," \
			"or name a kernel's build directory with KDIR=." >&2; \
		exit 1; }
	$(KBUILD) modules

# The library and the tool are useful without the module: a machine that only runs the
# tests in a virtual machine needs no module of its own.
try-modules:
	@if [ -e $(KDIR)/Makefile ]; then \
		$(KBUILD) modules; \
	else \
		echo "NOTE: no kernel headers in $(KDIR):" \
			"only the library and the tool were built."; \
	fi

lib:
	$(SUBMAKE) -C lib all

tools: lib
	$(SUBMAKE) -C tools all

# Not in "all", because it needs Go.
server:
	$(SUBMAKE) -C tools server

examples: lib
	$(SUBMAKE) -C tools/examples all

man: tools
	$(SUBMAKE) -C lib man
	$(SUBMAKE) -C tools man

selftests: lib tools
	$(SUBMAKE) -C selftests all

# kbuild runs depmod only with a System.map, and signs only with a key; a distribution's
# headers have neither.
RELEASE = $(shell cat $(KDIR)/include/config/kernel.release)
BWTREE_KO = $(DESTDIR)/lib/modules/$(RELEASE)/extra/kmod/kvtree_bwtree.ko
UNSIGNED = $(if $(wildcard $(KDIR)/certs/signing_key.pem),,CONFIG_MODULE_SIG_ALL=)

install-module: all
ifneq ($(wildcard $(KDIR)/Makefile),)
	@test -e kmod/kvtree.ko || { echo "kmod/kvtree.ko is not built" >&2; exit 1; }
	$(KBUILD) INSTALL_MOD_DIR=extra DEPMOD=true $(UNSIGNED) \
		$(if $(DESTDIR),INSTALL_MOD_PATH=$(DESTDIR)) modules_install
	$(if $(filter y n,$(KVTREE_BWTREE)),rm -f $(BWTREE_KO)*)
	$(if $(DESTDIR),,depmod -a $(RELEASE))
else
	@echo "NOTE: no kernel headers in $(KDIR): installing the library and the tool only."
endif

# Programs find the library after ldconfig.
install: install-module
	$(SUBMAKE) -C lib install
	$(SUBMAKE) -C tools install
	$(if $(DESTDIR),,-ldconfig)
	$(if $(DESTDIR),,-udevadm control --reload 2>/dev/null || true)
	$(if $(DESTDIR),,-systemctl daemon-reload 2>/dev/null || true)

install-server:
	$(SUBMAKE) -C tools install-server
	$(if $(DESTDIR),,-systemctl daemon-reload 2>/dev/null || true)

# Removes the module for all kernels; a loaded module stays loaded.
uninstall:
	find $(DESTDIR)/lib/modules/*/extra -path '*/extra/kmod/*' -name 'kvtree*.ko*' \
		-delete 2>/dev/null || true
	$(SUBMAKE) -C lib uninstall
	$(SUBMAKE) -C tools uninstall
	$(if $(DESTDIR),,-for dir in /lib/modules/*/; do depmod -a "$$(basename "$$dir")"; done)
	$(if $(DESTDIR),,-ldconfig)
	$(if $(DESTDIR),,-udevadm control --reload 2>/dev/null || true)
	$(if $(DESTDIR),,-systemctl daemon-reload 2>/dev/null || true)

deb:
	@$(LANES)/packages.sh

demo:
	@$(LANES)/demo.sh

vm:
	@$(LANES)/vm.sh

# Leaves out tests that another lane also runs; takes broken builds and Debian releases in turns.
check: KVT_SHORT := 1
check: KVT_WHOLE := 1
check: TURN := $(or $(TURN),now)
check:
	@$(LANES)/check.sh stock uml-debug uml deb stock-7 broken crash user lint fuzz history \
		hibernate

# The tests that find most in a short time, for each commit.
check-quick: KVT_QUICK := 1
check-quick:
	@$(LANES)/check.sh user uml lint

check-uml:
	@$(LANES)/check.sh uml

check-debug:
	@$(LANES)/check.sh uml-debug

check-broken:
	@$(LANES)/check.sh broken

check-kcsan:
	@$(LANES)/check.sh kcsan

check-arm64:
	@$(LANES)/check.sh arm64

check-weak:
	@$(LANES)/check.sh weak

check-crash:
	@CRASH_TIME=$(or $(CRASH_TIME),1800) $(LANES)/check.sh crash

check-fuzz: FUZZ_TIME := $(or $(FUZZ_TIME),600)
check-fuzz:
	@$(LANES)/check.sh fuzz

check-history:
	@HISTORY_TIME=$(or $(HISTORY_TIME),600) $(LANES)/check.sh history

check-hibernate:
	@$(LANES)/check.sh hibernate

check-user:
	@$(LANES)/check.sh user

check-deb:
	@$(LANES)/check.sh deb

# T: the fuzzer alone.
fuzz: T := fuzz
fuzz: FUZZ_TIME := $(or $(FUZZ_TIME),600)
fuzz:
	@$(LANES)/check.sh user

check-stock:
	@$(LANES)/check.sh stock

check-stock7:
	@$(LANES)/check.sh stock-7

lint:
	@$(LANES)/check.sh lint

bench:
	@$(LANES)/bench.sh

bench-stock bench-bpf bench-log bench-net:
	@$(LANES)/bench-guest.sh $@

docs:
	@$(LANES)/docs.sh

# Not through KDIR: the objects may be those of another kernel without
# headers.
clean:
	@for d in lib tools tools/bench/stock tools/bench/bpf tools/bench/log \
		tools/examples selftests selftests/crash selftests/format selftests/fuzz \
		selftests/history selftests/hibernate; do \
		[ ! -e $$d/Makefile ] || $(MAKE) -s -C $$d clean; done
	@find kmod -name '*.o' -o -name '*.ko' -o -name '*.mod' -o \
		-name '*.mod.c' -o -name '.*.cmd' -o -name '*.o.d' \
		-o -name 'modules.order' | xargs -r rm -f
	@rm -rf build lib/python/src/*.egg-info Module.symvers modules.order .Module.symvers.cmd \
		.modules.order.cmd .module-common.o ..module-common.o.cmd \
		.tmp_versions
	@find . -name __pycache__ -prune -exec rm -rf {} +

help:
	@echo 'Build and install'
	@echo '  all          module, library and tool (default)'
	@echo '  modules      only the module; try-modules: the same if there are kernel headers'
	@echo '  lib, tools   the library; the tool'
	@echo '  server       kvtree-server, for Redis clients; needs Go 1.23 or newer, and the network once'
	@echo '  examples     programs that use kvtree from BPF, in tools/examples'
	@echo '  selftests    test programs, which need the loaded module; lanes build and run them'
	@echo '  install      module (if there are kernel headers), library, tool'
	@echo '  install-module  only the module'
	@echo '  install-server  the server, its manual page and systemd units'
	@echo '  uninstall    remove everything that these have installed, for all kernels'
	@echo '  deb          Debian packages of everything for Debian 12 or 13, in build/packages'
	@echo '  man          manual pages: man -M lib/man:tools/man kvtree'
	@echo '  docs         Documentation/ as HTML in build/docs'
	@echo '  clean        remove everything built here'
	@echo
	@echo 'See it work'
	@echo '  demo         boot a Debian kernel in QEMU and use kvtree there'
	@echo '  vm           a shell in such a machine, with the module loaded'
	@echo
	@echo 'Test'
	@echo '  check        all of the following except check-kcsan, check-arm64 and check-weak; ten of'
	@echo '               check-broken and a part of check-deb, in turns; prints "N passed, N failed"'
	@echo '  check-quick  a few minutes, with the tests that find most: for each commit'
	@echo '  check-uml    KUnit and kselftests on User-Mode Linux'
	@echo '  check-debug  those that test the module, with KASAN, lockdep, kmemleak, fault'
	@echo '               injection'
	@echo '  check-stock  kselftests on a Debian kernel in QEMU'
	@echo '  check-stock7 tests that depend on the kernel, built and run on Debian 13 with'
	@echo '               kernel 7.x'
	@echo '  check-kcsan  concurrent tests with KCSAN, which finds data races'
	@echo '  check-arm64  KUnit, and programs that need only libc, on a kernel for arm64'
	@echo '               with pages of 64 KiB'
	@echo '  check-weak   concurrent tests with KCSAN on arm64, which also finds missing'
	@echo '               barriers'
	@echo '  check-crash  more crashes and power cuts than check: CRASH_TIME seconds (1800)'
	@echo '  check-fuzz   the whole interface by bytes that its coverage guides, for FUZZ_TIME'
	@echo '               seconds (600)'
	@echo '  check-history  check concurrent histories of processes and BPF programs for'
	@echo '               linearizability, for HISTORY_TIME seconds (600)'
	@echo '  check-hibernate  a machine with a durable store hibernates and is resumed'
	@echo '  check-user   KUnit in programs, with sanitizers; a minute of fuzzing'
	@echo '  check-broken check that tests catch deliberately broken builds; T: only these'
	@echo '  check-deb    packages are built, installed, upgraded and purged on Debian 12 and 13;'
	@echo '               RELEASES: on one of bookworm, trixie'
	@echo '  fuzz         only the fuzzing of check-user, for FUZZ_TIME seconds (600)'
	@echo '  lint         checkpatch, sparse, kernel-doc, shellcheck, mypy, ruff, gofmt and more'
	@echo
	@echo 'Measure'
	@echo '  bench        the index beside other maps, in programs and in a kernel; results'
	@echo '               in build/bench.json and build/bench.svg. T=user or T=uml: one of'
	@echo '               them; T=reclaim: memory that is freed sooner or later;'
	@echo '               BENCH_ARGS, BENCH_UML_ARGS: options'
	@echo '  bench-stock  kvtree beside redis-server and memcached, on a Debian kernel'
	@echo '               in QEMU; results in build/bench-stock.json.'
	@echo '               ICOUNT=1 counts instructions instead of time'
	@echo '  bench-bpf    the same for BPF programs: lookups beside hash and trie maps, a'
	@echo '               cache in XDP beside memcached; results in build/bench-bpf.json'
	@echo '  bench-log    durable stores beside LMDB, RocksDB and Redis, on User-Mode Linux and on'
	@echo '               a Debian kernel; T=uml or T=stock does one of them; build/bench-log.json'
	@echo '  bench-net    kvtree-server beside Redis, with redis-benchmark, on a Debian kernel in'
	@echo '               QEMU; results in build/bench-net.json'
	@echo
	@echo 'Variables'
	@echo '  KDIR=DIR     build directory of the kernel (now $(KDIR))'
	@echo '  PREFIX=DIR DESTDIR=DIR   where install puts things (now $(PREFIX))'
	@echo '  KVT_CFLAGS=  more compiler flags for the module'
	@echo '  KVTREE_BWTREE=n  leave out the Bw-tree, which is a module of its own; y: link it'
	@echo '               into kvtree.ko; give it to both "make" and "make install"'
	@echo '  KVT_TESTS=1  a module that checks itself, and test modules if the kernel has KUnit'
	@echo '  T=PATTERN    run only tests of this name: T=perm, T="abi*",'
	@echo '               T=suite.case, T=program.case'
	@echo '  ENGINE=NAME  run test programs with that engine alone: masstree, bwtree'
	@echo '  AT_ONCE=N    lanes that run at once in check (by processors and memory)'
	@echo '  KVT_NEWEST=1 the newest kernels of the archive, not those known to be good'
	@echo '  V=1          show the commands of the kernel build, too'
	@echo
	@echo 'Lanes install Debian packages they need (as root or with sudo) and keep'
	@echo 'kernels and a Debian 13 in ~/.cache/kvtree. Logs are in build/LANE/results.'
