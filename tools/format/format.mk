# SPDX-License-Identifier: GPL-2.0
#
# To be included after lib/found.mk by those that need libkvtformat.a, with FORMAT_DIR: the path
# to this folder.
#
#   $(FORMAT_LIB)	as the tool has it
#   $(eval $(call format_lib,FOLDER,MAKE-ARGUMENTS))   makes FOLDER/libkvtformat.a, for example
#			with another CC and CFLAGS

define format_lib
$(1)/libkvtformat.a: FORCE
	@mkdir -p $(1)
	@$$(MAKE) --no-print-directory -C $(FORMAT_DIR) OUTPUT=$(abspath $(1)) $(2)
endef

FORMAT_LIB := $(FORMAT_DIR)/libkvtformat.a
$(eval $(call format_lib,$(FORMAT_DIR),CFLAGS='$(CFLAGS)'))
