// SPDX-License-Identifier: GPL-2.0
/*
 * show: what a recovery restores, in lines that are the same on every machine:
 *
 *	"KEY" version V ID="VALUE"...
 *
 * Values that are long, or not text, are shown as their length and checksum.
 */
#include <inttypes.h>
#include "cmd.h"
#include "state.h"

#define SHOWN	40u

static bool is_text(const u8 *data, u32 len)
{
	while (len--) {
		if (*data < ' ' || *data > '~' || *data == '"')
			return false;
		data++;
	}
	return true;
}

static void print_bytes(const u8 *data, u32 len)
{
	if (len <= SHOWN && is_text(data, len))
		printf("\"%.*s\"", (int)len, (const char *)data);
	else
		printf("%u bytes, crc32c %08x", len, kvt_crc32c(~0U, data, len) ^ ~0U);
}

int cmd_show(const struct cmd_options *o)
{
	struct fmt_state state = { 0 };
	struct fmt_disks disks;
	u32 i, j;

	fmt_disks_load(&disks, o->paths, o->nr_paths);
	fmt_recover(&disks, &state, 0, true, NULL);
	if (state.error) {
		printf("error %d: %s\n", -state.error, state.text);
	} else {
		printf("epoch %" PRIu64 " of %" PRIu64 ", generation %" PRIu64 ", lease %" PRIu64
		       ", %" PRIu64 " records, %u keys\n",
		       (uint64_t)state.found.epoch, (uint64_t)state.found.seen,
		       (uint64_t)state.found.generation, (uint64_t)state.found.version_lease,
		       (uint64_t)state.records, state.nr);
		for (i = 0; i < state.nr; i++) {
			print_bytes(state.item[i].key, state.item[i].key_len);
			printf(" version %" PRIu64, (uint64_t)state.item[i].version);
			for (j = 0; j < state.item[i].ncols; j++) {
				printf(" %u=", state.item[i].col[j].id);
				print_bytes(state.item[i].col[j].data, state.item[i].col[j].len);
			}
			printf("\n");
		}
	}
	i = state.error;
	fmt_state_free(&state);
	fmt_disks_free(&disks);
	return i ? 1 : 0;
}
