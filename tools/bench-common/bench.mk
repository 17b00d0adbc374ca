# SPDX-License-Identifier: GPL-2.0
#
# What the makefiles of bench-stock, bench-bpf and bench-log share. They say before:
#
#   PROG	the program, made of all .c files beside it
#   PKGS	libraries that it needs, by their names for pkg-config

CFLAGS	?= -O2 -g

PKGS += jansson
FOUND_BY   := $(CC) $(BPF_CLANG) $(BPFTOOL)
FOUND_PKGS := $(PKGS)
include ../../lib/found.mk

PKG_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(PKGS))
PKG_LIBS   = $(shell $(PKG_CONFIG) --libs $(PKGS))

KVT_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes \
	-Wno-missing-field-initializers -I../../lib -I../../uapi -I../bench-common

COMMON := $(patsubst %.c,%.o,$(wildcard ../bench-common/*.c))
OBJS   := $(patsubst %.c,%.o,$(filter-out %.bpf.c,$(wildcard *.c)))
LIB    := ../../lib/libkvtree.a

all: $(PROG)

%.o: %.c Makefile ../bench-common/bench.mk $(FOUND)
	$(CC) $(CPPFLAGS) $(KVT_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(LIB):
	$(MAKE) -C ../../lib all

$(PROG): $(OBJS) $(COMMON) $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(OBJS) $(COMMON) $(LIB) $(PKG_LIBS) -lm

clean:
	rm -f $(PROG) $(FOUND) *.o *.d *.skel.h ../bench-common/*.o ../bench-common/*.d

-include $(OBJS:.o=.d) $(COMMON:.o=.d)

.PHONY: all clean
