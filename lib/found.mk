# SPDX-License-Identifier: GPL-2.0
#
# What a build finds is part of what it depends on. Objects and programs depend on
# $(FOUND), a file that is written anew only when a compiler, the flags or the version of a
# library is not what it was: a library that is installed later is then used.
#
# To be included before the rules, after
#
#   FOUND_BY	commands whose versions matter: $(CC) if not told
#   FOUND_PKGS	libraries, by their names for pkg-config
#   FOUND_ALSO	any other text that matters: the version of what has no --version

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
