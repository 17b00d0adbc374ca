// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Print some counters of a store, if the kernel module knows them: it may be older
 * or newer than the program.
 *
 * Shown in: kvtree_stat(3), kvtree_stat_name(3), kvtree_stat_text(3),
 * kvtree_stat_is_gauge(3), kvtree_engine_stat(3)
 *
 * Prints:
 *	keys ... (now): keys in the store
 *	get ... (in all): gets
 *	get_miss ... (in all): gets of a key that did not exist
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	const unsigned int wanted[3] = {
		KVTREE_STAT_KEYS, KVTREE_STAT_GET, KVTREE_STAT_GET_MISS,
	};
	struct kvtree_engine_stat stat = { 0 };
	uint64_t values[KVTREE_STAT_NR];
	struct kvtree *kv;
	unsigned int i;
	int known;

	known = kvtree_open(NULL, KVTREE_OPEN_READ, &kv);
	if (!known)
		known = kvtree_stat(kv, values, KVTREE_STAT_NR);
	if (known < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(known));
	for (i = 0; i < 3; i++) {
		unsigned int id = wanted[i];

		if (id >= (unsigned int)known)
			continue;
		printf("%s %llu (%s): %s\n", kvtree_stat_name(id),
		       (unsigned long long)values[id],
		       kvtree_stat_is_gauge(id) ? "now" : "in all",
		       kvtree_stat_text(id));
	}
	/* A Masstree has none. */
	while (!kvtree_engine_stat(kv, &stat, sizeof(stat))) {
		printf("%s %llu: %s\n", stat.name,
		       (unsigned long long)stat.value, stat.text);
		stat.nr++;
	}
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
