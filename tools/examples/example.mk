# SPDX-License-Identifier: GPL-2.0
#
# Builds an example. Its Makefile sets PROG, the name of the program, and includes this file. The
# program consists of all .c files of the folder, of the skeletons of all .bpf.c files, and of
# ../common.

include ../tools.mk

CFLAGS ?= -O2 -g

TOP := ../../..

EX_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes \
	-Wno-missing-field-initializers -pthread -I. -I../common -I$(TOP)/lib -I$(TOP)/uapi
# <asm/types.h> is the host's; programs have no other use for it.
EX_BPF_CFLAGS := -g -O2 -Wall -Wextra -Wno-unused-parameter -target bpf -mcpu=v3 \
	-I. -I$(TOP)/uapi -I/usr/include/$(shell $(CC) -print-multiarch)

FOUND_BY   := $(CC) $(BPF_CLANG) $(BPFTOOL)
FOUND_PKGS := libbpf liburing jansson
include $(TOP)/lib/found.mk

BPF_SRCS := $(wildcard *.bpf.c)
SKELS	 := $(BPF_SRCS:.bpf.c=.skel.h)
OBJS	 := $(patsubst %.c,%.o,$(filter-out $(BPF_SRCS),$(wildcard *.c)))
LIBS	 := ../common/common.a $(TOP)/lib/libkvtree.a

.PHONY: all clean
.SECONDARY:

all: $(PROG)

%.bpf.o: %.bpf.c $(filter-out %.skel.h,$(wildcard *.h)) $(TOP)/uapi/kvtree.bpf.h ../example.mk $(FOUND)
	$(BPF_CLANG) $(EX_BPF_CFLAGS) -c -o $@ $<

%.skel.h: %.bpf.o
	$(BPFTOOL) gen skeleton $< name $* >$@.tmp
	@mv $@.tmp $@

$(OBJS): %.o: %.c $(SKELS) ../example.mk $(FOUND)
	$(CC) $(CPPFLAGS) $(EX_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

../common/common.a:
	$(MAKE) -C ../common

$(TOP)/lib/libkvtree.a:
	$(MAKE) -C $(TOP)/lib all

ifneq ($(PROG),)
$(PROG): $(OBJS) $(LIBS)
	$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $(OBJS) $(LIBS) -lbpf -lelf -lz -luring \
		-ljansson $(PROG_LIBS)
endif

clean:
	$(RM) $(PROG) $(OBJS) $(OBJS:.o=.d) $(BPF_SRCS:.c=.o) $(SKELS) $(FOUND)

-include $(OBJS:.o=.d)
