// SPDX-License-Identifier: GPL-2.0
/* kvt-kunit [PATTERN] [PARAMETER=NUMBER...]: run the KUnit suites of kmod/tests. */
#include <stdio.h>
#include <stdlib.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "../../kmod/base/index.h"
#include "../../kmod/base/mem.h"
#include "shim/kunit.h"

int main(int argc, char **argv)
{
	char all[] = "", *filter = all;
	bool ok;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strchr(argv[i], '=')) {
			filter = argv[i];
		} else if (!shim_param_set(argv[i])) {
			fprintf(stderr, "%s: no such parameter: %s\n", argv[0], argv[i]);
			return 2;
		}
	}
	if (kvt_mem_init() || kvt_masstree_init()) {
		fprintf(stderr, "%s: no memory\n", argv[0]);
		return 2;
	}
	ok = shim_kunit_run(filter);
	rcu_barrier();
	kvt_masstree_exit();
	kvt_mem_exit();
	return !ok;
}
