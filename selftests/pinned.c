// SPDX-License-Identifier: GPL-2.0
/*
 * What a thread keeps while it waits for its own memory: nothing of a store.  Its
 * buffer is a file that never answers.
 */
#include <errno.h>
#include <pthread.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/silent.h"

static void *touch(void *arg)
{
	return (void *)(long)*(volatile char *)arg;
}

TEST(a_silent_file_holds_threads_until_it_answers)
{
	struct kvt_silent s;
	pthread_t threads[3];
	void *byte;
	int i;

	if (!kvt_silent_make(&s, NR(threads)))
		SKIP(return, "the kernel has no FUSE");
	for (i = 0; i < NR(threads); i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, touch, s.mem + i * (s.len / NR(threads))));
	kvt_silent_wait(&s, NR(threads));
	for (i = 0; i < NR(threads); i++)
		EXPECT_EQ(EBUSY, pthread_tryjoin_np(threads[i], &byte));
	kvt_silent_answer(&s);
	for (i = 0; i < NR(threads); i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &byte));
		EXPECT_EQ(NULL, byte);
	}
	kvt_silent_end(&s);
}

TEST_HARNESS_MAIN
