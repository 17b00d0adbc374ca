# SPDX-License-Identifier: GPL-2.0
#
# Shared by the makefiles in stock, bpf and log. Each sets before including this:
#
#   PROG	the program, built from all .c files beside its makefile and those here
#   PKGS	required libraries, by their names for pkg-config

TOP	:= ../../..
CFLAGS	?= -O2 -g

PKGS += jansson
FOUND_BY   := $(CC) $(BPF_CLANG) $(BPFTOOL)
FOUND_PKGS := $(PKGS)
include $(TOP)/lib/found.mk

PKG_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(PKGS))
PKG_LIBS   = $(shell $(PKG_CONFIG) --libs $(PKGS))

KVT_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes \
	-Wno-missing-field-initializers -I$(TOP)/lib -I$(TOP)/uapi

# Each program has its own objects of the shared files, because they are built in parallel.
OBJS := $(patsubst ../%.c,shared/%.o,$(wildcard ../*.c)) \
	$(patsubst %.c,%.o,$(filter-out %.bpf.c,$(wildcard *.c)))
LIB  := $(TOP)/lib/libkvtree.a

all: $(PROG)

define compile
@mkdir -p $(@D)
$(CC) $(CPPFLAGS) $(KVT_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
endef

%.o: %.c Makefile ../bench.mk $(FOUND)
	$(compile)
shared/%.o: ../%.c Makefile ../bench.mk $(FOUND)
	$(compile)

$(LIB):
	$(MAKE) -C $(TOP)/lib all

$(PROG): $(OBJS) $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(OBJS) $(LIB) $(PKG_LIBS) -lm

clean:
	rm -rf $(PROG) $(FOUND) *.o *.d *.skel.h shared

-include $(OBJS:.o=.d)

.PHONY: all clean
