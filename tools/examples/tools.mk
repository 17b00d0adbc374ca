# SPDX-License-Identifier: GPL-2.0
#
# The programs that build BPF objects, which not every machine has.

BPF_CLANG ?= $(firstword $(shell command -v clang-19 clang))
BPFTOOL	  ?= $(firstword $(shell PATH=$$PATH:/usr/sbin:/sbin command -v bpftool))
HAVE_BPF  := $(and $(BPF_CLANG),$(BPFTOOL))
