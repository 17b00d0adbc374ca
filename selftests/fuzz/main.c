// SPDX-License-Identifier: GPL-2.0
/* An input: the calls of two threads, one after the other or at the same time. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "fuzz.h"

#define CALLS_MAX	48

static const call_fn calls[] = {
	call_op, call_op, call_op, call_batch, call_batch, call_ring, call_ring, call_store,
	call_attach, call_tell, call_raw, call_file,
};

struct part {
	struct input in;
	unsigned int thread;
	int nth;		/* makes the n-th allocation fail, or -1 */
};

/* The stack is there: a page fault of the fuzzer's is not to be what fails. */
static __attribute__((noinline)) void touch_stack(void)
{
	volatile char stack[1 << 16];
	size_t at;

	for (at = 0; at < sizeof(stack); at += 1024)
		stack[at] = 0;
}

static void part_run(struct part *part)
{
	struct input *in = &part->in;
	unsigned int n, kind;

	touch_stack();
	for (n = 0; in->left && n < CALLS_MAX; n++) {
		kind = input_below(in, 16);
		if (kind < NR(calls)) {
			calls[kind](in, part->thread);
		} else if (kind == NR(calls)) {
			arena_vanish(in, part->thread);
		} else if (kind == NR(calls) + 1 && part->nth >= 0) {
			/* Of the next call, whichever it is. */
			kvt_nth_set(part->nth, 1 + input_below(in, 24));
			calls[input_below(in, NR(calls))](in, part->thread);
			kvt_nth_done(part->nth);
		} else {
			arena_poke(in);
		}
	}
}

static int nth_open(void)
{
	return access(KVT_NTH, W_OK) ? -1 : kvt_nth_open();
}

static void *second_thread(void *arg)
{
	struct part *part = arg;

	part->nth = nth_open();
	cover_begin(part->thread);
	part_run(part);
	cover_end(part->thread);
	if (part->nth >= 0)
		close(part->nth);
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	arena_make();
	cover_make();
	disks_make();
	return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t len)
{
	static int nth = -2;
	struct part part[2] = { { .thread = 0 }, { .thread = 1 } };
	pthread_t thread;
	size_t first;
	bool two;

	if (len < 2)
		return 0;
	if (nth == -2)
		nth = nth_open();
	/* How much of it is the first thread's; 255: all. */
	first = data[0] == 255 ? len - 1 : (len - 1) * data[0] / 255;
	part[0].in = (struct input){ data + 1, first };
	part[1].in = (struct input){ data + 1 + first, len - 1 - first };
	part[0].nth = nth;
	two = part[1].in.left;

	sessions_begin();
	if (two)
		KVT_CHECK(!pthread_create(&thread, NULL, second_thread, &part[1]));
	cover_begin(0);
	part_run(&part[0]);
	cover_end(0);
	if (two)
		KVT_CHECK(!pthread_join(thread, NULL));
	rings_end();
	sessions_end();
	disks_end();
	/* The kernel's log has its report about this input; libFuzzer keeps the input. */
	KVT_CHECK(!kvt_taint());
	return 0;
}
