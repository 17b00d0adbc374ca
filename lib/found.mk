# SPDX-License-Identifier: GPL-2.0
#
# Objects and programs depend on $(FOUND). This file is rewritten only when a compiler, the flags
# or the version of a library changes, so that a library installed later is used.
#
# Include it before the rules, after
#
#   FOUND_BY	commands with versions that matter; default $(CC)
#   FOUND_PKGS	libraries, by their names for pkg-config
#   FOUND_ALSO	any other text that matters, such as a version that no option prints

PKG_CONFIG ?= pkg-config
FOUND_BY   ?= $(CC)

FOUND := $(or $(OUTPUT),.)/.found

found_command = $(1): $(shell $(1) --version 2>&1 | head -n 1);
found_package = $(1): $(shell $(PKG_CONFIG) --modversion $(1) 2>/dev/null);
FOUND_NOW := $(strip $(foreach c,$(FOUND_BY),$(call found_command,$(c))) \
	$(foreach p,$(FOUND_PKGS),$(call found_package,$(p))) \
	$(FOUND_ALSO) flags: $(CPPFLAGS) $(CFLAGS) $(LDFLAGS))

.DEFAULT_GOAL := all

$(FOUND):
	$(shell mkdir -p $(@D))$(file >$@,$(FOUND_NOW))

ifneq ($(strip $(file <$(FOUND))),$(FOUND_NOW))
$(FOUND): FORCE
endif

.PHONY: FORCE
