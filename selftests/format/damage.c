// SPDX-License-Identifier: GPL-2.0
/* Damaged disks: see damage.h. */
#include "damage.h"

void fmt_subject_open(struct fmt_subject *subject, char *const *paths, u32 nr)
{
	struct fmt_disks disks;

	fmt_disks_load(&disks, paths, nr);
	fmt_subject_take(subject, &disks);
}

void fmt_subject_take(struct fmt_subject *subject, const struct fmt_disks *disks)
{
	const struct kvtree_log_super *super;
	u32 nr_lives, begun, i;

	memset(subject, 0, sizeof(*subject));
	subject->disks = *disks;
	fmt_recover(&subject->disks, &subject->state, 0, false, &subject->map);
	if (subject->state.error)
		fmt_die("the disks cannot be recovered as they are: %s", subject->state.text);
	super = &subject->map.super[0];
	nr_lives = le32_to_cpu(super->nr_lives);
	/* An epoch that was begun, and of which something is missing already. */
	begun = subject->state.found.seen - subject->state.found.epoch;
	if (subject->state.found.first && subject->state.found.first < subject->state.found.epoch)
		subject->until = (subject->state.found.first + subject->state.found.epoch) / 2;
	subject->disks.until = subject->until;
	if (subject->until)
		fmt_recover(&subject->disks, &subject->earlier, 0, false, NULL);
	subject->disks.until = 0;
	if (subject->earlier.error)
		fmt_die("an earlier epoch cannot be recovered: %s", subject->earlier.text);
	for (i = 0; i < 2; i++) {
		subject->before[i].error = -ENOENT;
		/* A life that has ended says with which epoch. */
		if (nr_lives && !super->lives[nr_lives - 1].last_epoch && i + 1 > begun)
			fmt_recover(&subject->disks, &subject->before[i], i + 1 - begun, false,
				    NULL);
	}
}

void fmt_subject_close(struct fmt_subject *subject)
{
	fmt_state_free(&subject->state);
	fmt_state_free(&subject->earlier);
	fmt_state_free(&subject->before[0]);
	fmt_state_free(&subject->before[1]);
	fmt_state_free(&subject->now);
	fmt_map_free(&subject->map);
	fmt_disks_free(&subject->disks);
}

/* Of an earlier epoch that is asked for, everything is as it was or nothing is restored. */
static bool earlier_is_right(struct fmt_subject *subject)
{
	if (!subject->until)
		return true;
	subject->disks.until = subject->until;
	fmt_recover(&subject->disks, &subject->now, 0, false, NULL);
	subject->disks.until = 0;
	return subject->now.error ? subject->now.text[0] :
				    fmt_state_same(&subject->now, &subject->earlier);
}

enum fmt_outcome fmt_subject_try(struct fmt_subject *subject, u32 blocks)
{
	enum fmt_outcome outcome = FMT_WRONG;

	fmt_recover(&subject->disks, &subject->now, 0, false, NULL);
	if (subject->now.error && subject->now.text[0])
		outcome = FMT_DETECTED;
	else if (fmt_state_same(&subject->now, &subject->state))
		outcome = FMT_SAME;
	else if (fmt_state_same(&subject->now, &subject->before[0]) ||
		 (blocks == 2 && fmt_state_same(&subject->now, &subject->before[1])))
		outcome = FMT_DROPPED;
	if (!earlier_is_right(subject))
		outcome = FMT_WRONG;
	fmt_disks_restore(&subject->disks);
	return outcome;
}
