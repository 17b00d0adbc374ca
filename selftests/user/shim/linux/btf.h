/* SPDX-License-Identifier: GPL-2.0 */
/* Nothing here is called by BPF programs. */
