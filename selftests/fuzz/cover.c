// SPDX-License-Identifier: GPL-2.0
/* KCOV's places in the module become counters of libFuzzer. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/kcov.h>

#include "fuzz.h"

#define PLACES	(1u << 17)	/* in one input's calls */
#define BITS	16

__attribute__((section("__libfuzzer_extra_counters")))
static unsigned char counters[1 << BITS];

static struct {
	int fd;
	unsigned long *places;	/* their number first */
} cover[2];

void cover_make(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		cover[i].fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
		KVT_CHECK(cover[i].fd >= 0);
		KVT_CHECK(ioctl(cover[i].fd, KCOV_INIT_TRACE, (unsigned long)PLACES) == 0);
		cover[i].places = mmap(NULL, PLACES * sizeof(long), PROT_READ | PROT_WRITE,
				       MAP_SHARED, cover[i].fd, 0);
		KVT_CHECK(cover[i].places != MAP_FAILED);
	}
}

void cover_begin(unsigned int thread)
{
	__atomic_store_n(&cover[thread].places[0], 0, __ATOMIC_RELAXED);
	KVT_CHECK(ioctl(cover[thread].fd, KCOV_ENABLE, KCOV_TRACE_PC) == 0);
}

void cover_end(unsigned int thread)
{
	unsigned long n, i;
	unsigned char *counter;

	KVT_CHECK(ioctl(cover[thread].fd, KCOV_DISABLE, 0) == 0);
	n = __atomic_load_n(&cover[thread].places[0], __ATOMIC_RELAXED);
	for (i = 1; i <= n && i < PLACES; i++) {
		counter = &counters[cover[thread].places[i] * 0x9e3779b97f4a7c15ul >> (64 - BITS)];
		/* The other thread's may be lost. */
		if (*counter < 255)
			++*counter;
	}
}
