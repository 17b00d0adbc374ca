# SPDX-License-Identifier: GPL-2.0
#
# What the makefiles in stock, bpf and log share. Each sets before it includes this:
#
#   PROG	the program, made of all .c files beside its makefile and of those here
#   PKGS	libraries that it needs, by their names for pkg-config

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

# Each program has objects of its own of what is shared: they are built at the same time.
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
