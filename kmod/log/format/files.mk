# SPDX-License-Identifier: GPL-2.0
#
# What reads devices: the module's Kbuild and tools/format/Makefile, which makes a library of
# it for programs, include this.

format-objs := super.o segment.o record.o extent.o table.o piece.o directory.o ahead.o range.o
format-objs += walk.o epochs.o find.o visit.o load.o recover.o
