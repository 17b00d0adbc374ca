/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A silent file: a FUSE file with a server that does not answer reads.  A thread
 * that touches the file's mapping blocks, in the kernel as well, until the test
 * answers or breaks the file.  Fatal signals end the wait.
 */
#ifndef KVT_TEST_SILENT_H
#define KVT_TEST_SILENT_H

#include <stdbool.h>
#include <stddef.h>

#define KVT_SILENT_PAGES	512

struct kvt_silent {
	char *mem;		/* private mapping, readable and writable */
	char *shared;		/* of kvt_silent_write(), or NULL */
	size_t len;
	int file;		/* for more mappings */
	int server;		/* process */
	int orders;		/* socket to the server */
};

/*
 * Needs root.  Returns false if the kernel has no FUSE: skip the test then.  Other
 * failures end the process.  Children share the file as long as the caller lives.
 */
bool kvt_silent_make(struct kvt_silent *s, unsigned int pages);
/* Wait until reads of `nr` pages have no answer: each page is a read of its own. */
void kvt_silent_wait(struct kvt_silent *s, unsigned int nr);
/*
 * Write data to the file's first page; that write is not answered.  The returned page can
 * be read, but a thread that writes to it blocks uninterruptibly, and then so does any
 * thread of the process that maps or unmaps memory, or forks.
 */
char *kvt_silent_write(struct kvt_silent *s, const void *data, size_t len);
/* Answer all reads, now and later: the file is zeros; and all writes. */
void kvt_silent_answer(struct kvt_silent *s);
/* Fail all of them, now and later: SIGBUS, or EFAULT in the kernel. */
void kvt_silent_break(struct kvt_silent *s);
/* Break, unmap and close it. */
void kvt_silent_end(struct kvt_silent *s);

#endif /* KVT_TEST_SILENT_H */
