// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz: structures with other values and correct checksums.  A recovery may restore
 * anything or nothing, but nothing beyond the limits, and no numbers about to overflow.
 */
#include <inttypes.h>
#include "cmd.h"
#include "damage.h"
#include "mutate.h"

/* Either the epoch that is asked for is restored, or nothing. */
static bool until_is_right(struct fmt_subject *subject, u64 until)
{
	subject->disks.until = until;
	fmt_recover(&subject->disks, &subject->now, 0, false, NULL);
	subject->disks.until = 0;
	if (subject->now.error)
		return subject->now.text[0];
	return subject->now.found.epoch == until && fmt_found_sane(&subject->now.found);
}

int cmd_fuzz(const struct cmd_options *o)
{
	u64 restored = 0, refused = 0, silent = 0, i;
	struct fmt_subject subject;

	fmt_subject_open(&subject, o->paths, o->nr_paths);
	for (i = 0; i < o->places; i++) {
		fmt_mutate_seed(&subject.map, &subject.disks, o->seed + i);
		if (!until_is_right(&subject, 1 + i % (subject.state.found.epoch + 2))) {
			printf("# seed %" PRIu64 ": an earlier epoch: %s\n",
			       (uint64_t)(o->seed + i), subject.now.text);
			silent++;
		}
		fmt_recover(&subject.disks, &subject.now, 0, false, NULL);
		fmt_disks_restore(&subject.disks);
		if (!subject.now.error && !fmt_found_sane(&subject.now.found)) {
			printf("# seed %" PRIu64 ": epoch %" PRIx64 ", generation %" PRIx64
			       ", lease %" PRIx64 "\n", (uint64_t)(o->seed + i),
			       (uint64_t)subject.now.found.epoch,
			       (uint64_t)subject.now.found.generation,
			       (uint64_t)subject.now.found.version_lease);
			silent++;
		}
		if (subject.now.error && !subject.now.text[0]) {
			printf("# seed %" PRIu64 ": error %d, and nobody says why\n",
			       (uint64_t)(o->seed + i), -subject.now.error);
			silent++;
		}
		refused += !!subject.now.error;
		restored += !subject.now.error;
	}
	fmt_subject_close(&subject);
	printf("seed %" PRIu64 ": %" PRIu64 " refused, %" PRIu64 " restored, %" PRIu64 " WRONG\n",
	       (uint64_t)o->seed, (uint64_t)refused, (uint64_t)restored, (uint64_t)silent);
	return silent || !refused || !restored;
}
