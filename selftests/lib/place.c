// SPDX-License-Identifier: GPL-2.0
/* Memory that faults; see place.h. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kvt_test.h"
#include "place.h"

static int hole_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	/* Without CONFIG_USERFAULTFD: it is in all kernels that lanes build. */
	KVT_CHECK(fd >= 0);
	KVT_CHECK(ioctl(fd, UFFDIO_API, &api) == 0);
	return fd;
}

static void hole_make(struct kvt_place *p)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	p->uffd = hole_open();
	p->mem = mmap(NULL, 2 * KVT_PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KVT_CHECK(p->mem != MAP_FAILED);
	memset(p->mem, 0, KVT_PAGE);
	reg.range.start = kvt_ptr(p->mem + KVT_PAGE);
	reg.range.len = KVT_PAGE;
	KVT_CHECK(ioctl(p->uffd, UFFDIO_REGISTER, &reg) == 0);
}

void kvt_hole_wait(const struct kvt_place *p)
{
	struct pollfd poll_fd = { .fd = p->uffd, .events = POLLIN };
	struct uffd_msg msg;

	KVT_CHECK(poll(&poll_fd, 1, -1) == 1);
	KVT_CHECK(read(p->uffd, &msg, sizeof(msg)) == sizeof(msg));
	KVT_CHECK(msg.event == UFFD_EVENT_PAGEFAULT);
	KVT_CHECK((msg.arg.pagefault.address & ~(KVT_PAGE - 1ull)) == kvt_ptr(p->mem + KVT_PAGE));
}

void kvt_hole_fill(const struct kvt_place *p)
{
	struct uffdio_copy copy = {
		.dst = kvt_ptr(p->mem + KVT_PAGE),
		.src = kvt_ptr(p->later),
		.len = KVT_PAGE,
	};

	KVT_CHECK(ioctl(p->uffd, UFFDIO_COPY, &copy) == 0);
}

void kvt_hole_empty(const struct kvt_place *p)
{
	KVT_CHECK(madvise(p->mem + KVT_PAGE, KVT_PAGE, MADV_DONTNEED) == 0);
}

void *kvt_place_make(struct kvt_place *p, enum kvt_absence absence, const void *data,
		     size_t len, size_t first)
{
	size_t at = KVT_PAGE - first;
	int fd;

	memset(p, 0, sizeof(*p));
	p->absence = absence;
	p->uffd = -1;
	if (absence == KVT_HOLE) {
		hole_make(p);
		memcpy(p->mem + at, data, first);
		memcpy(p->later, data + first, len - first);
		return p->mem + at;
	}
	fd = memfd_create("kvtree-test", MFD_CLOEXEC);
	KVT_CHECK(fd >= 0);
	KVT_CHECK(ftruncate(fd, 2 * KVT_PAGE) == 0);
	KVT_CHECK(pwrite(fd, data, len, at) == len);
	p->mem = mmap(NULL, 2 * KVT_PAGE, PROT_READ | PROT_WRITE,
		      absence == KVT_COPIED ? MAP_PRIVATE : MAP_SHARED, fd, 0);
	KVT_CHECK(p->mem != MAP_FAILED);
	close(fd);
	if (absence == KVT_COPIED) {
		*(volatile char *)p->mem;
		*(volatile char *)(p->mem + KVT_PAGE);
	} else {
		/* Reading would map the neighbours. */
		*(volatile char *)p->mem = 0;
		KVT_CHECK(madvise(p->mem + KVT_PAGE, KVT_PAGE, MADV_DONTNEED) == 0);
	}
	return p->mem + at;
}

void kvt_place_end(struct kvt_place *p)
{
	KVT_CHECK(munmap(p->mem, 2 * KVT_PAGE) == 0);
	if (p->uffd >= 0)
		close(p->uffd);
}
