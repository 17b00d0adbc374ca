/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A silent file: a FUSE file whose server does not answer reads.  A thread that
 * touches the file's mapping blocks, in the kernel as well, until the test answers
 * or breaks the file.  Fatal signals end the wait.
 */
#ifndef KVT_TEST_SILENT_H
#define KVT_TEST_SILENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define KVT_SILENT_PAGES	512

enum kvt_silent_state {
	KVT_SILENT_SILENT,
	KVT_SILENT_ANSWERS,
	KVT_SILENT_BROKEN,
};

struct kvt_silent {
	char *mem;		/* private mapping, readable and writable */
	size_t len;
	int fuse;		/* the server's end */
	int file;		/* for more mappings */
	pthread_t server;
	pthread_mutex_t lock;
	pthread_cond_t asked;
	enum kvt_silent_state state;	/* lock */
	unsigned int nr;	/* lock: reads without an answer */
	struct kvt_silent_read {
		unsigned long long unique;
		unsigned int size;
	} reads[KVT_SILENT_PAGES];	/* lock */
};

/*
 * Needs root.  Returns false if the kernel has no FUSE: skip the test then.  Other
 * failures end the process.  Children share the file as long as the caller lives.
 */
bool kvt_silent_make(struct kvt_silent *s, unsigned int pages);
/* Wait until reads of `nr` pages have no answer: each page is a read of its own. */
void kvt_silent_wait(struct kvt_silent *s, unsigned int nr);
/* Answer all reads, now and later: the file is zeros. */
void kvt_silent_answer(struct kvt_silent *s);
/* Fail all reads, now and later: SIGBUS, or EFAULT in the kernel. */
void kvt_silent_break(struct kvt_silent *s);
/* Break, unmap and close it. */
void kvt_silent_end(struct kvt_silent *s);

#endif /* KVT_TEST_SILENT_H */
