// SPDX-License-Identifier: GPL-2.0
/*
 * Malformed SQEs, and SQEs and memory that change while they are used.  The command
 * fails with a documented errno or does what a single read of it says, and the store
 * stays sound.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/hostile.h"
#include "lib/kvt_test.h"
#include "lib/place.h"
#include "lib/uring.h"
#include "lib/work.h"

struct bad {
	struct kvt_env env;
	int fd;
	__u64 digest;
	struct kvt_way way;		/* SQEs of 128 bytes */
	struct kvt_way narrow;		/* of 64 */
	struct kvt_ring *ring;
};

FIXTURE(bad) {
	struct bad b;
};

FIXTURE_SETUP(bad)
{
	struct bad *b = &self->b;
	struct kvtree_col cols[2] = { { .id = 1, .len = 3 }, { .id = 2, .len = 3 } };

	kvt_env_init(&b->env, "uring-bad", 0, 0);
	b->fd = b->env.fd;
	ASSERT_EQ(0, kvt_put(b->fd, STR("k"), STR("a value"), NULL));
	ASSERT_EQ(0, kvt_put_cols(b->fd, STR("cols"), cols, 2, STR("onetwo"), NULL));
	ASSERT_EQ(0, kvt_add(b->fd, STR("n"), 0, 1, NULL));
	b->digest = kvt_digest(b->fd);
	kvt_ring_make(&b->way.ring, 64, IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
	kvt_ring_make(&b->narrow.ring, 64, 0);
	b->way.fd = b->fd;
	b->narrow.fd = b->fd;
	b->ring = &b->way.ring;
}

FIXTURE_TEARDOWN(bad)
{
	struct bad *b = &self->b;

	kvt_ring_exit(&b->narrow.ring);
	kvt_ring_exit(b->ring);
	kvt_env_exit(&b->env);
}

static struct kvtree_op put_op(struct kvt_bytes key, struct kvt_bytes val)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, key);

	op.val = kvt_ptr(val.data);
	op.val_len = val.len;
	return op;
}

static struct kvtree_op get_op(struct kvt_bytes key, void *buf, __u32 room)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, key);

	op.val = kvt_ptr(buf);
	op.val_len = room;
	return op;
}

/* The result of a command that must not change anything. */
static int refused(struct bad *b, struct kvt_way *way, __u32 cmd, const void *arg,
		   size_t len)
{
	int ret;

	kvt_sqe_cmd(kvt_ring_sqe(&way->ring), way->fd, cmd, arg, len, 3);
	kvt_ring_sqe_at(&way->ring, way->ring.sq_tail - 1)->flags = way->sqe_flags;
	ret = kvt_ring_result(&way->ring, 3);
	KVT_CHECK(kvt_digest(b->fd) == b->digest);
	return ret;
}

/* The same for an operation in one of the forms. */
static int refused_op(struct bad *b, enum kvt_form form, const struct kvtree_op *op)
{
	struct kvtree_op copy = *op;
	int ret = kvt_way_exec(&b->way, form, &copy, NULL);

	KVT_CHECK(kvt_digest(b->fd) == b->digest);
	return ret;
}

/*
 * Commands
 */
TEST_F(bad, operation_does_not_fit_into_a_short_sqe)
{
	struct bad *b = &self->b;
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	static const unsigned int flags[] = { 0, IOSQE_ASYNC };
	size_t i;

	for (i = 0; i < NR(flags); i++) {
		b->narrow.sqe_flags = flags[i];
		/* There is room for its first 16 bytes. */
		EXPECT_EQ(-EINVAL, refused(b, &b->narrow, KVTREE_URING_OP_INLINE, &op, 16));
		memset(&op, 0, sizeof(op));
		EXPECT_EQ(-EINVAL, refused(b, &b->narrow, KVTREE_URING_OP_INLINE, &op, 16));
	}
}

TEST_F(bad, unknown_commands_are_eopnotsupp)
{
	struct bad *b = &self->b;
	static const __u32 known[] = {
		KVTREE_URING_OP, KVTREE_URING_OP_INLINE, KVTREE_URING_BATCH, KVTREE_URING_CANCEL,
	};
	static const __u32 calls[] = {
		KVTREE_IOC_INFO, KVTREE_IOC_BATCH, KVTREE_IOC_STORE_CREATE, KVTREE_IOC_STORE_OPEN,
		KVTREE_IOC_STORE_DESTROY, KVTREE_IOC_STORE_LIST, KVTREE_IOC_STORE_SELF,
		KVTREE_IOC_STAT, KVTREE_IOC_OP, KVTREE_IOC_ENGINE_STAT, KVTREE_IOC_STORE_SET,
	};
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	__u32 i, bit;

	for (i = 0; i < 256; i++) {
		ASSERT_EQ(-EOPNOTSUPP, refused(b, &b->way, i, &op, sizeof(op))) {
			TH_LOG("command %u", i);
		}
		if (i >= 0x60 && i <= 0x63)
			continue;
		ASSERT_EQ(-EOPNOTSUPP, refused(b, &b->way, _IOWR('K', i, struct kvtree_op),
					       &op, sizeof(op))) {
			TH_LOG("command %u of ours", i);
		}
	}
	for (i = 0; i < NR(calls); i++)
		ASSERT_EQ(-EOPNOTSUPP, refused(b, &b->way, calls[i], &op, sizeof(op)));
	/* Size, direction and type are parts of the number. */
	for (i = 0; i < NR(known); i++) {
		for (bit = 8; bit < 32; bit++) {
			ASSERT_EQ(-EOPNOTSUPP, refused(b, &b->way, known[i] ^ (1u << bit), &op,
						       sizeof(op))) {
				TH_LOG("command %x", known[i] ^ (1u << bit));
			}
		}
	}
}

TEST_F(bad, what_is_reserved_must_be_zero)
{
	struct bad *b = &self->b;
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	struct kvtree_uring_op by_pointer;
	struct kvtree_uring_inline in;
	struct kvtree_uring_batch batch;
	struct kvtree_uring_cancel cancel;
	struct kvt_way *ways[] = { &b->way, &b->narrow };
	__u32 bit, w;

	for (w = 0; w < NR(ways); w++) {
		for (bit = 0; bit < 32; bit++) {
			by_pointer = (struct kvtree_uring_op){
				.op = kvt_ptr(&op), .op_size = 64, .flags = 1u << bit,
			};
			EXPECT_EQ(-EINVAL, refused(b, ways[w], KVTREE_URING_OP, &by_pointer, 16));
			cancel = (struct kvtree_uring_cancel){ .reserved = 1u << bit };
			EXPECT_EQ(-EINVAL, refused(b, ways[w], KVTREE_URING_CANCEL, &cancel, 16));
			if (bit < 2)
				continue;
			cancel = (struct kvtree_uring_cancel){ .flags = 1u << bit };
			EXPECT_EQ(-EINVAL, refused(b, ways[w], KVTREE_URING_CANCEL, &cancel, 16));
		}
		for (bit = 0; bit < 16; bit++) {
			batch = (struct kvtree_uring_batch){
				.ops = kvt_ptr(&op), .nr = 1, .op_size = 64, .flags = 1u << bit,
			};
			EXPECT_EQ(-EINVAL, refused(b, ways[w], KVTREE_URING_BATCH, &batch, 16));
			/* Even if there is nothing to do. */
			batch.nr = 0;
			EXPECT_EQ(-EINVAL, refused(b, ways[w], KVTREE_URING_BATCH, &batch, 16));
		}
	}
	for (bit = 0; bit < 64; bit++) {
		in = (struct kvtree_uring_inline){ .op = op, .reserved = 1ull << bit };
		EXPECT_EQ(-EINVAL, refused(b, &b->way, KVTREE_URING_OP_INLINE, &in,
					   sizeof(in)));
		in = (struct kvtree_uring_inline){ .op = op, .out = kvt_ptr(&op) };
		in.op.reserved = 1ull << bit;
		EXPECT_EQ(-EINVAL, refused(b, &b->way, KVTREE_URING_OP_INLINE, &in,
					   sizeof(in)));
	}
}

TEST_F(bad, parts_of_the_sqe_that_mean_nothing_must_be_zero)
{
	struct bad *b = &self->b;
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	struct io_uring_sqe *sqe;
	__u32 i, form;
	int ret;

	for (form = 0; form < KVT_FORMS; form++) {
		for (i = 0; i < 7; i++) {
			sqe = kvt_way_queue(&b->way, form, &op, 3);
			switch (i) {
			case 0:
				sqe->addr = 1;
				break;
			case 1:
				sqe->len = 1;
				break;
			case 2:
				sqe->ioprio = 1;
				break;
			case 3:
				/* Unknown flags. */
				sqe->rw_flags = 1 << 5;
				break;
			case 4:
				sqe->off |= 1ull << 32;
				break;
			case 5:
				sqe->file_index = 1;
				break;
			case 6:
				/* Without IORING_URING_CMD_FIXED. */
				sqe->buf_index = 1;
				break;
			}
			ret = kvt_ring_result(b->ring, 3);
			EXPECT_EQ(-EINVAL, ret) {
				TH_LOG("%s, field %u", kvt_form_names[form], i);
			}
			EXPECT_EQ(b->digest, kvt_digest(b->fd));
		}
	}
}

TEST_F(bad, impossible_sizes_of_operations_are_refused)
{
	struct bad *b = &self->b;

	/* Bytes that this kernel does not know must be zero. */
	static const struct {
		__u32 size;
		int err;
	} sizes[] = {
		{ 0, -EINVAL }, { 1, -EINVAL }, { 63, -EINVAL }, { 65, -E2BIG }, { 72, -E2BIG },
		{ 128, -E2BIG }, { 4096, -E2BIG }, { 4097, -E2BIG }, { 65535, -E2BIG },
		{ 65536, -E2BIG }, { 1u << 31, -E2BIG }, { ~0u, -E2BIG },
	};
	struct kvt_way *ways[] = { &b->way, &b->narrow };
	char *mem = malloc(1 << 17);
	struct kvtree_op *op = (void *)mem;
	__u32 i, w;

	ASSERT_NE(NULL, mem);
	memset(mem, 1, 1 << 17);
	*op = kvt_good_op(KVTREE_OP_PUT);
	for (i = 0; i < NR(sizes); i++) {
		struct kvtree_uring_op arg = { .op = kvt_ptr(mem), .op_size = sizes[i].size };
		struct kvtree_uring_batch batch = {
			.ops = kvt_ptr(mem), .nr = 1, .op_size = sizes[i].size,
		};

		for (w = 0; w < NR(ways); w++) {
			EXPECT_EQ(sizes[i].err, refused(b, ways[w], KVTREE_URING_OP, &arg, 16)) {
				TH_LOG("%u bytes", sizes[i].size);
			}
			if (sizes[i].size > 65535)
				continue;
			EXPECT_EQ(sizes[i].err, refused(b, ways[w], KVTREE_URING_BATCH, &batch,
							16)) {
				TH_LOG("batch, %u bytes", sizes[i].size);
			}
		}
	}
	free(mem);
}

TEST_F(bad, batches_of_too_many_are_refused)
{
	struct bad *b = &self->b;
	static const __u32 nrs[] = { KVTREE_BATCH_MAX + 1, 65536, 1u << 31, ~0u };
	struct kvtree_uring_batch batch = { .op_size = 64 };
	struct kvtree_op *ops = calloc(KVTREE_BATCH_MAX + 1, sizeof(*ops));
	__u32 i;

	ASSERT_NE(NULL, ops);
	for (i = 0; i <= KVTREE_BATCH_MAX; i++)
		ops[i] = kvt_good_op(KVTREE_OP_PUT);
	for (i = 0; i < NR(nrs); i++) {
		batch.ops = kvt_ptr(ops);
		batch.nr = nrs[i];
		EXPECT_EQ(-E2BIG, refused(b, &b->way, KVTREE_URING_BATCH, &batch, 16));
		EXPECT_EQ(-E2BIG, refused(b, &b->narrow, KVTREE_URING_BATCH, &batch, 16));
	}
	free(ops);
}

TEST_F(bad, provided_buffers_are_refused_where_nothing_takes_them)
{
	struct bad *b = &self->b;
	struct kvtree_op op;
	struct io_uring_sqe *sqe;
	int form, code, ret;

	for (form = 0; form < KVT_FORMS; form++) {
		for (code = KVTREE_OP_NOP; code <= KVTREE_OP_SCAN; code++) {
			op = kvt_good_op(code);
			sqe = kvt_way_queue(&b->way, form, &op, 3);
			sqe->flags = IOSQE_BUFFER_SELECT;
			ret = kvt_ring_result(b->ring, 3);
			/* io_uring may refuse it itself. */
			EXPECT_TRUE(ret == -EINVAL || ret == -EOPNOTSUPP) {
				TH_LOG("%s, operation %d: %d", kvt_form_names[form], code, ret);
			}
			EXPECT_EQ(b->digest, kvt_digest(b->fd));
		}
	}
}

/*
 * Addresses
 */
TEST_F(bad, wild_pointers_in_sqes_are_efault)
{
	struct bad *b = &self->b;
	struct kvt_way *ways[] = { &b->way, &b->narrow };
	struct kvtree_uring_op by_pointer = { .op_size = 64 };
	struct kvtree_uring_batch batch = { .op_size = 64 };
	struct kvtree_uring_inline in = {};
	__u32 i, w, f;

	in.op = kvt_good_op(KVTREE_OP_GET);
	for (i = 0; i <= KVT_NR_WILD; i++) {
		__u64 at = i < KVT_NR_WILD ? kvt_wild[i] : 0;

		for (f = 0; f < 2; f++) {
			for (w = 0; w < NR(ways); w++) {
				ways[w]->sqe_flags = f ? IOSQE_ASYNC : 0;
				by_pointer.op = at;
				EXPECT_EQ(-EFAULT, refused(b, ways[w], KVTREE_URING_OP, &by_pointer,
							   16)) {
					TH_LOG("operation at %llx", at);
				}
				for (batch.nr = 1; batch.nr <= 3; batch.nr++) {
					batch.ops = at;
					EXPECT_EQ(-EFAULT, refused(b, ways[w], KVTREE_URING_BATCH,
								   &batch, 16)) {
						TH_LOG("%u operations at %llx", batch.nr, at);
					}
				}
			}
			/* 0 asks for no outcome. */
			in.out = at;
			EXPECT_EQ(at ? -EFAULT : 7, refused(b, &b->way, KVTREE_URING_OP_INLINE,
							    &in, sizeof(in))) {
				TH_LOG("outcome at %llx", at);
			}
		}
	}
}

TEST_F(bad, wild_pointers_of_operations_are_efault)
{
	struct bad *b = &self->b;
	struct kvtree_op op;
	int form, code, f;
	__u32 i;

	for (f = 0; f < 2; f++) {
		b->way.sqe_flags = f ? IOSQE_ASYNC : 0;
		for (i = 0; i < KVT_NR_WILD; i++) {
			for (form = 0; form < KVT_FORMS; form++) {
				for (code = KVTREE_OP_GET; code <= KVTREE_OP_SCAN; code++) {
					op = kvt_good_op(code);
					op.key = kvt_wild[i];
					ASSERT_EQ(-EFAULT, refused_op(b, form, &op)) {
						TH_LOG("%s, operation %d, key at %llx",
						       kvt_form_names[form], code, kvt_wild[i]);
					}
				}
				op = kvt_good_op(KVTREE_OP_PUT);
				op.val = kvt_wild[i];
				ASSERT_EQ(-EFAULT, refused_op(b, form, &op));
				op = kvt_good_op(KVTREE_OP_GET);
				op.val = kvt_wild[i];
				ASSERT_EQ(-EFAULT, refused_op(b, form, &op));
				op = kvt_good_op(KVTREE_OP_SCAN);
				op.val = kvt_wild[i];
				ASSERT_EQ(-EFAULT, refused_op(b, form, &op));
				op = kvt_good_op(KVTREE_OP_SCAN);
				op.arg = kvt_wild[i];
				ASSERT_EQ(-EFAULT, refused_op(b, form, &op));
				op = kvt_good_op(KVTREE_OP_PUT);
				op.flags = KVTREE_F_COLS;
				op.ncols = 1;
				op.arg = kvt_wild[i];
				ASSERT_EQ(-EFAULT, refused_op(b, form, &op));
				op.opcode = KVTREE_OP_GET;
				ASSERT_EQ(-EFAULT, refused_op(b, form, &op));
			}
		}
	}
}

TEST_F(bad, half_mapped_operations_are_efault)
{
	struct bad *b = &self->b;
	char *end = kvt_map_guarded(2), whole[128];
	struct kvtree_uring_inline in;
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	__u32 n;

	memcpy(whole, &op, 64);
	memcpy(whole + 64, &op, 64);
	for (n = 0; n < 64; n += 8) {
		/* Only n bytes of the operation are mapped. */
		memcpy(end - n, whole, n);
		kvt_sqe_op(kvt_ring_sqe(b->ring), b->fd, (void *)(end - n), 1);
		EXPECT_EQ(-EFAULT, kvt_ring_result(b->ring, 1));
		kvt_sqe_batch(kvt_ring_sqe(b->ring), b->fd, end - n, 1, 1);
		EXPECT_EQ(-EFAULT, kvt_ring_result(b->ring, 1));
		EXPECT_EQ(b->digest, kvt_digest(b->fd));
		/* Only n bytes for the outcome are mapped. */
		in = (struct kvtree_uring_inline){
			.op = kvt_good_op(KVTREE_OP_GET), .out = kvt_ptr(end - n),
		};
		EXPECT_EQ(-EFAULT, refused(b, &b->way, KVTREE_URING_OP_INLINE, &in,
					   sizeof(in)));
	}
	/* They may end where the mapping ends. */
	op = kvt_good_op(KVTREE_OP_GET);
	memcpy(end - 64, &op, 64);
	kvt_sqe_op(kvt_ring_sqe(b->ring), b->fd, (void *)(end - 64), 1);
	EXPECT_EQ(7, kvt_ring_result(b->ring, 1));
	in.out = kvt_ptr(end - 64);
	EXPECT_EQ(7, refused(b, &b->way, KVTREE_URING_OP_INLINE, &in, sizeof(in)));
}

TEST_F(bad, half_mapped_batch_reports_what_was_done)
{
	struct bad *b = &self->b;
	static const __u32 mapped[] = { 0, 1, 2, 31, 32, 33, 63, 100 };
	char *end = kvt_map_guarded(2);
	__u64 before, sum = 1;
	struct kvtree_op *ops;
	__u32 i, m, done;
	int ret;

	for (m = 0; m < NR(mapped); m++) {
		ops = (void *)(end - mapped[m] * sizeof(*ops));
		for (i = 0; i < mapped[m]; i++) {
			ops[i] = kvt_op(KVTREE_OP_ADD, STR("n"));
			ops[i].arg = 1;
			ops[i].result = 1234;
		}
		for (done = 0; ; done += ret) {
			kvt_sqe_batch(kvt_ring_sqe(b->ring), b->fd, ops + done,
				      mapped[m] + 3 - done, 1);
			ret = kvt_ring_result(b->ring, 1);
			if (ret < 0)
				break;
			ASSERT_NE(0, ret);
			ASSERT_GE(mapped[m], done + ret);
		}
		ASSERT_EQ(-EFAULT, ret);
		for (i = 0; i < mapped[m]; i++)
			ASSERT_EQ(i < done ? 0 : 1234, ops[i].result);
		ASSERT_EQ(0, kvt_add(b->fd, STR("n"), 0, 0, &before));
		sum += done;
		ASSERT_EQ(sum, before);
	}
}

/* The change may have been made although its outcome was lost, but at most once. */
TEST_F(bad, outcomes_that_cannot_be_written_are_efault)
{
	struct bad *b = &self->b;
	const size_t bytes = sysconf(_SC_PAGESIZE);
	char *page = kvt_map_guarded(1) - bytes;
	struct kvtree_op *op = (void *)page;
	struct kvtree_uring_inline in = {};
	__u64 before, now;
	int f, form, ret;

	*op = kvt_good_op(KVTREE_OP_ADD);
	op->arg = 1;
	in.op = *op;
	in.out = kvt_ptr(page);
	ASSERT_EQ(0, mprotect(page, bytes, PROT_READ));
	for (f = 0; f < 2; f++) {
		b->way.sqe_flags = f ? IOSQE_ASYNC : 0;
		for (form = KVT_INLINE_OUT; form < KVT_FORMS; form++) {
			ASSERT_EQ(0, kvt_add(b->fd, STR("n"), 0, 0, &before));
			if (form == KVT_INLINE_OUT) {
				kvt_sqe_cmd(kvt_ring_sqe(b->ring), b->fd,
					    KVTREE_URING_OP_INLINE, &in, sizeof(in), 1);
			} else {
				kvt_way_queue(&b->way, form, op, 1);
			}
			ret = kvt_ring_result(b->ring, 1);
			EXPECT_EQ(-EFAULT, ret) {
				TH_LOG("%s", kvt_form_names[form]);
			}
			ASSERT_EQ(0, kvt_add(b->fd, STR("n"), 0, 0, &now));
			EXPECT_GE(1, now - before);
		}
	}
}

TEST_F(bad, read_only_places_for_values_are_efault)
{
	struct bad *b = &self->b;
	const size_t bytes = sysconf(_SC_PAGESIZE);
	char *page = kvt_map_guarded(1) - bytes;
	struct kvtree_scan *scan = (void *)page;
	struct kvtree_op op;
	int form;

	memset(page, 0, bytes);
	ASSERT_EQ(0, mprotect(page, bytes, PROT_READ));
	for (form = 0; form < KVT_FORMS; form++) {
		op = kvt_good_op(KVTREE_OP_GET);
		op.val = kvt_ptr(page);
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.val = kvt_ptr(page);
		op.val_len = bytes;
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
		op = kvt_good_op(KVTREE_OP_SCAN);
		op.arg = kvt_ptr(scan);
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
		op = kvt_op(KVTREE_OP_GET, STR("cols"));
		op.flags = KVTREE_F_COLS;
		op.ncols = 1;
		op.arg = kvt_ptr(page);
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
	}
}

/* A mapped page beyond the end of its file, where an access raises SIGBUS. */
TEST_F(bad, memory_behind_the_end_of_a_file_is_efault)
{
	struct bad *b = &self->b;
	int form, fd = memfd_create("kvtree-test", MFD_CLOEXEC);
	const size_t page = sysconf(_SC_PAGESIZE);
	struct kvtree_op op;
	char *mem, *end;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, page));
	mem = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	end = mem + page;
	for (form = 0; form < KVT_FORMS; form++) {
		op = put_op(STR("k"), kvt_bytes(end - 6, 10));
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
		op = put_op(kvt_bytes(end, 10), STR("v"));
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
		op = get_op(STR("k"), end - 4, 100);
		EXPECT_EQ(-EFAULT, refused_op(b, form, &op));
	}
	kvt_sqe_op(kvt_ring_sqe(b->ring), b->fd, (void *)end, 1);
	EXPECT_EQ(-EFAULT, kvt_ring_result(b->ring, 1));
	kvt_sqe_batch(kvt_ring_sqe(b->ring), b->fd, end, 2, 1);
	EXPECT_EQ(-EFAULT, kvt_ring_result(b->ring, 1));
	munmap(mem, 2 * page);
	close(fd);
}

/*
 * Memory that changes during the call
 */

/* A value overwrites the SQE that asks for it. */
TEST_F(bad, get_into_its_own_sqe_is_what_it_was)
{
	struct bad *b = &self->b;
	struct kvtree_uring_inline evil = {
		.op = { .opcode = KVTREE_OP_REMOVE, .flags = KVTREE_F_KEY_INLINE,
			.key_len = 1, .key_inline = { 'k' } },
		.out = 0xffff888000001000ull,
		.reserved = ~0ull,
	};
	unsigned int f;

	ASSERT_EQ(0, kvt_put(b->fd, STR("evil"), kvt_bytes(&evil, sizeof(evil)), NULL));
	for (f = 0; f < 2; f++) {
		struct kvtree_op op, out = {};
		struct io_uring_sqe *sqe = kvt_ring_sqe(b->ring);
		char *cmd = (char *)sqe + offsetof(struct io_uring_sqe, addr3);

		op = get_op(STR("evil"), cmd, sizeof(evil));
		kvt_sqe_inline(sqe, b->fd, &op, &out, 5);
		sqe->flags = f ? IOSQE_ASYNC : 0;
		EXPECT_EQ((int)sizeof(evil), kvt_ring_result(b->ring, 5));
		EXPECT_EQ((int)sizeof(evil), out.result);
		EXPECT_EQ(op.val, out.val);
		EXPECT_EQ(0, memcmp(cmd, &evil, sizeof(evil)));
	}
	EXPECT_TRUE(kvt_has(b->fd, STR("k"), STR("a value")));
}

/* Values overwrite the queue's head, tail and completions. */
TEST_F(bad, get_into_the_ring_harms_nobody_else)
{
	struct bad *b = &self->b;
	struct kvt_ring victim;
	struct kvtree_op op;
	char junk[4096];
	int form;

	memset(junk, 0xa7, sizeof(junk));
	ASSERT_EQ(0, kvt_put(b->fd, STR("junk"), kvt_bytes(junk, sizeof(junk)), NULL));
	for (form = 0; form < KVT_FORMS; form++) {
		kvt_ring_make(&victim, 4, IORING_SETUP_SQE128);
		/* From another ring and from itself: no more than the ring is lost. */
		op = get_op(STR("junk"), victim.rings, sizeof(junk));
		kvt_way_exec(&b->way, form, &op, NULL);
		kvt_ring_exit(&victim);

		kvt_ring_make(&victim, 4, IORING_SETUP_SQE128);
		op = get_op(STR("junk"), victim.rings, sizeof(junk));
		kvt_sqe_inline(kvt_ring_sqe(&victim), b->fd, &op, NULL, 5);
		kvt_ring_publish(&victim);
		kvt_ring_enter(&victim, 1, 0, 0);
		kvt_ring_enter(&victim, 4, 0, IORING_ENTER_GETEVENTS);
		kvt_ring_exit(&victim);
	}
	kvt_check_sound(b->fd);
}

/*
 * A child flips fields between two values.  A mixture of their bytes is harmless; a
 * field that is read twice is not.  With "rep movsb" io_uring copies an SQE byte by byte,
 * so no mixture of two values may have a result of its own.
 */
enum flip {
	FLIP_OPCODE,		/* a get, or a removal that is malformed */
	FLIP_KEY_LEN,		/* inline: 3 or 17 */
	FLIP_VAL_LEN,		/* 4, or too long */
	FLIP_FLAGS,		/* the key's bytes, or a pointer to them */
	FLIP_NCOLS,		/* two columns, or too many */
	NR_FLIPS
};

struct flipped {
	struct kvt_race race;
	volatile struct kvtree_op *op[8];	/* of kind i % NR_FLIPS */
	struct kvtree_op mem[8];
	struct kvtree_col cols[2];
	char key[8];
	char val[256];
	char out[256];
};

static struct kvtree_op flip_op(struct flipped *f, enum flip flip)
{
	struct kvtree_op op = put_op(kvt_bytes(NULL, 3), kvt_bytes(f->val, 4));

	switch (flip) {
	case FLIP_OPCODE:
		op = get_op(kvt_bytes(NULL, 1), f->out, sizeof(f->out));
		op.key_inline[0] = 'k';
		op.flags = KVTREE_F_KEY_INLINE;
		break;
	case FLIP_KEY_LEN:
	case FLIP_VAL_LEN:
		memcpy(op.key_inline, "xyz", 3);
		op.flags = KVTREE_F_KEY_INLINE;
		break;
	case FLIP_FLAGS:
		op.key = kvt_ptr(f->key);
		break;
	default:
		op.key = kvt_ptr(f->key);
		op.flags = KVTREE_F_COLS;
		op.arg = kvt_ptr(f->cols);
		op.ncols = 2;
	}
	return op;
}

static void flip_once(volatile struct kvtree_op *op, enum flip flip, __u32 turn)
{
	switch (flip) {
	case FLIP_OPCODE:
		op->opcode = turn % 3 ? KVTREE_OP_GET : KVTREE_OP_REMOVE;
		break;
	case FLIP_KEY_LEN:
		op->key_len = turn % 3 ? 3 : KVTREE_KEY_INLINE + 1;
		break;
	case FLIP_VAL_LEN:
		op->val_len = turn % 3 ? 4 : 0x40000000;
		break;
	case FLIP_FLAGS:
		op->flags = turn % 2 ? KVTREE_F_KEY_INLINE : 0;
		break;
	default:
		op->ncols = turn % 3 ? 2 : 0x4002;
	}
}

static bool flip_allows(enum flip flip, int ret)
{
	switch (flip) {
	case FLIP_OPCODE:
		return ret == 7 || ret == -EINVAL;
	case FLIP_KEY_LEN:
		return ret == 0 || ret == -EINVAL;
	case FLIP_FLAGS:
		return ret == 0;
	default:
		return ret == 0 || ret == -E2BIG;
	}
}

static int flip_child(void *arg)
{
	struct flipped *f = arg;
	__u32 turn, i;

	kvt_race_begin(&f->race);
	for (turn = 0; !kvt_race_over(&f->race); turn++)
		for (i = 0; i < 8; i++)
			flip_once(f->op[i], i % NR_FLIPS, turn);
	return 0;
}

/* Each key comes from one of the two readings. */
static void check_flipped(int fd, struct flipped *f)
{
	__u64 pointer = kvt_ptr(f->key);
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	__u32 i;

	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 4096, &list) == 0);
	for (i = 0; i < list.nr; i++) {
		struct kvt_bytes key = list.rec[i].key;

		KVT_CHECK(!kvt_cmp(key, STR("k")) || !kvt_cmp(key, STR("cols")) ||
			  !kvt_cmp(key, STR("n")) || !kvt_cmp(key, STR("xyz")) ||
			  !kvt_cmp(key, STR("key")) || !kvt_cmp(key, kvt_bytes(&pointer, 3)));
	}
	kvt_list_free(&list);
	KVT_CHECK(kvt_has(fd, STR("k"), STR("a value")));
	kvt_check_sound(fd);
}

static struct flipped *flip_begin(void)
{
	struct flipped *f = kvt_map_shared(sizeof(*f));

	strcpy(f->key, "key");
	f->cols[0] = (struct kvtree_col){ .id = 1, .len = 2 };
	f->cols[1] = (struct kvtree_col){ .id = 2, .len = 2 };
	return f;
}

#define RACES	1500

/* A child writes to the queue, which it shares with the kernel. */
TEST_F(bad, sqes_that_change_meanwhile_are_one_thing_or_another)
{
	struct bad *b = &self->b;
	struct flipped *f = flip_begin();
	struct kvt_way way = { .fd = b->fd };
	struct kvtree_op op;
	struct kvt_cqe cqe;
	__u32 i, j, flags;
	int pid;

	for (flags = 0; flags < 2; flags++) {
		way.sqe_flags = flags ? IOSQE_ASYNC : 0;
		kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
		for (j = 0; j < 8; j++) {
			f->op[j] = (void *)((char *)kvt_ring_sqe_at(&way.ring, j) +
					    offsetof(struct io_uring_sqe, addr3));
		}
		pid = kvt_race_start(&f->race, flip_child, f);
		for (i = 0; i < (flags ? RACES / 4 : RACES); i++) {
			for (j = 0; j < 8; j++) {
				op = flip_op(f, j % NR_FLIPS);
				kvt_way_queue(&way, KVT_INLINE, &op, j);
			}
			for (j = 0; j < 8; j++) {
				kvt_ring_wait(&way.ring, &cqe);
				ASSERT_GT(8, cqe.data);
				ASSERT_TRUE(flip_allows(cqe.data % NR_FLIPS, cqe.res)) {
					TH_LOG("field %d: %d", (int)cqe.data % NR_FLIPS, cqe.res);
				}
			}
		}
		kvt_race_stop(&f->race, pid);
		kvt_ring_exit(&way.ring);
		check_flipped(b->fd, f);
	}
}

TEST_F(bad, operations_that_change_meanwhile_are_read_once)
{
	struct bad *b = &self->b;
	struct flipped *f = flip_begin();
	struct kvt_cqe cqe;
	__u32 i, j, form;
	int pid, ret;

	for (j = 0; j < 8; j++)
		f->op[j] = &f->mem[j];
	for (form = KVT_BY_POINTER; form < KVT_FORMS; form++) {
		pid = kvt_race_start(&f->race, flip_child, f);
		for (i = 0; i < RACES; i++) {
			b->way.sqe_flags = i % 4 ? 0 : IOSQE_ASYNC;
			for (j = 0; j < 8; j++) {
				f->mem[j] = flip_op(f, j % NR_FLIPS);
				kvt_way_queue(&b->way, form, &f->mem[j], j);
			}
			for (j = 0; j < 8; j++) {
				kvt_ring_wait(b->ring, &cqe);
				ASSERT_GT(8, cqe.data);
				ret = kvt_way_result(form, &f->mem[cqe.data], &cqe);
				ASSERT_TRUE(flip_allows(cqe.data % NR_FLIPS, ret)) {
					TH_LOG("%s, field %d: %d", kvt_form_names[form],
					       (int)cqe.data % NR_FLIPS, ret);
				}
			}
		}
		kvt_race_stop(&f->race, pid);
		check_flipped(b->fd, f);
	}
}

struct letters {
	struct kvt_race race;
	char val[8192] __attribute__((aligned(4096)));
};

static int flip_letters(void *arg)
{
	struct letters *l = arg;

	kvt_race_begin(&l->race);
	while (!kvt_race_over(&l->race)) {
		memset(l->val, 'A', sizeof(l->val));
		memset(l->val, 'B', sizeof(l->val));
	}
	return 0;
}

TEST_F(bad, value_that_changes_during_a_put_is_copied_once)
{
	struct bad *b = &self->b;
	struct letters *l = kvt_map_shared(sizeof(*l));
	struct iovec iov = { l->val, sizeof(l->val) };
	char first[8192], second[8192];
	struct io_uring_sqe *sqe;
	struct kvtree_op op;
	__u32 i, j;
	int pid;

	memset(l->val, 'A', sizeof(l->val));
	ASSERT_EQ(0, kvt_ring_buffers(b->ring, &iov, 1));
	pid = kvt_race_start(&l->race, flip_letters, l);
	for (i = 0; i < RACES; i++) {
		op = put_op(STR("k"), kvt_bytes(l->val, sizeof(l->val)));
		sqe = kvt_way_queue(&b->way, i % KVT_IN_BATCH, &op, 1);
		/* Registered or not. */
		sqe->rw_flags = i % 2 ? IORING_URING_CMD_FIXED : 0;
		ASSERT_EQ(0, kvt_ring_result(b->ring, 1));
		ASSERT_EQ(8192, kvt_get(b->fd, STR("k"), first, 8192, NULL));
		ASSERT_EQ(8192, kvt_get(b->fd, STR("k"), second, 8192, NULL));
		ASSERT_EQ(0, memcmp(first, second, 8192));
		if (i % 64)
			continue;
		for (j = 0; j < 8192; j++)
			ASSERT_TRUE(first[j] == 'A' || first[j] == 'B');
	}
	kvt_race_stop(&l->race, pid);
}

/*
 * Memory that is unmapped
 */
/* The memory is read when the command runs, not when it is submitted. */
TEST_F(bad, memory_that_went_before_the_command_is_executed_is_efault)
{
	struct bad *b = &self->b;

	__u32 max_workers[2] = { 1, 1 };
	struct kvt_place hole, places[3];
	struct kvtree_op first, ops[3];
	struct kvt_cqe cqe;
	char val[64], *at;
	int form, f, i;

	memset(val, 'v', sizeof(val));
	ASSERT_EQ(0, kvt_ring_register(b->ring, IORING_REGISTER_IOWQ_MAX_WORKERS, max_workers,
				       2));
	for (f = 0; f < 2; f++) {
		b->way.sqe_flags = f ? IOSQE_ASYNC : 0;
		for (form = 0; form < KVT_FORMS; form++) {
			/* The only worker waits for the hole, and the other commands for it. */
			at = kvt_place_make(&hole, KVT_HOLE, val, 64, 32);
			first = put_op(STR("first"), kvt_bytes(at, 64));
			kvt_way_queue(&b->way, form, &first, 100);
			at = kvt_place_make(&places[0], KVT_GONE, val, 64, 32);
			ops[0] = put_op(STR("k"), kvt_bytes(at, 64));
			at = kvt_place_make(&places[1], KVT_GONE, val, 64, 32);
			ops[1] = put_op(kvt_bytes(at, 64), STR("v"));
			at = kvt_place_make(&places[2], KVT_GONE, val, 8, 4);
			ops[2] = get_op(STR("k"), at, 8);
			for (i = 0; i < 3; i++)
				kvt_way_queue(&b->way, form, &ops[i], i);
			kvt_ring_submit(b->ring);
			kvt_hole_wait(&hole);
			for (i = 0; i < 3; i++)
				kvt_place_end(&places[i]);
			kvt_hole_fill(&hole);
			for (i = 0; i < 4; i++) {
				kvt_ring_wait(b->ring, &cqe);
				if (cqe.data == 100) {
					ASSERT_EQ(0, kvt_way_result(form, &first, &cqe));
					continue;
				}
				ASSERT_GT(3, cqe.data);
				ASSERT_EQ(-EFAULT, kvt_way_result(form, &ops[cqe.data], &cqe));
			}
			ASSERT_EQ(0, kvt_remove(b->fd, STR("first")));
			kvt_place_end(&hole);
			ASSERT_EQ(b->digest, kvt_digest(b->fd));
		}
	}
}

TEST_F(bad, memory_unmapped_while_a_worker_waits_for_it_is_efault)
{
	struct bad *b = &self->b;
	struct kvt_place hole;
	struct kvtree_op op;
	struct kvt_cqe cqe;
	char val[64];
	int form;

	memset(val, 'v', sizeof(val));
	for (form = 0; form < KVT_FORMS; form++) {
		op = put_op(STR("k"), kvt_bytes(kvt_place_make(&hole, KVT_HOLE, val, 64, 32), 64));
		kvt_way_queue(&b->way, form, &op, 1);
		kvt_ring_submit(b->ring);
		kvt_hole_wait(&hole);
		kvt_place_end(&hole);
		kvt_ring_wait(b->ring, &cqe);
		EXPECT_EQ(-EFAULT, kvt_way_result(form, &op, &cqe));
		EXPECT_EQ(b->digest, kvt_digest(b->fd));
	}
}

/*
 * Execute operations with data in `mem`.  Each has its usual result, or EFAULT, or the
 * result for zeros, since unmapped memory comes back as zeros.
 */
static void hammer(struct kvt_way *way, char *mem, __u32 rounds)
{
	struct kvtree_op ops[3];
	struct kvt_cqe cqe;
	__u32 form, j;
	int ret;

	for (form = 0; rounds--; form = (form + 1) % KVT_FORMS) {
		ops[0] = put_op(kvt_bytes(mem, 4), kvt_bytes(mem + 100, 10000));
		ops[1] = get_op(STR("big"), mem + (1 << 14), 1 << 14);
		ops[2] = kvt_op(KVTREE_OP_SCAN, STR(""));
		ops[2].arg = kvt_ptr(mem + 64);
		ops[2].val = kvt_ptr(mem + (2 << 14));
		ops[2].val_len = 1 << 14;
		for (j = 0; j < 3; j++)
			kvt_way_queue(way, form, &ops[j], j);
		for (j = 0; j < 3; j++) {
			kvt_ring_wait(&way->ring, &cqe);
			ret = kvt_way_result(form, &ops[cqe.data], &cqe);
			if (ret == -EFAULT || ret == 0)
				continue;
			if (cqe.data == 1)
				KVT_CHECK(ret == 15000);
			else
				KVT_CHECK(cqe.data == 2 && (ret > 0 || ret == -EMSGSIZE));
		}
	}
}

TEST_F(bad, buffers_that_a_thread_unmaps_meanwhile_are_efault)
{
	struct bad *b = &self->b;
	static const struct {
		unsigned int setup;
		unsigned int sqe_flags;
	} ways[] = {
		{ IORING_SETUP_SQE128, 0 },
		{ IORING_SETUP_SQE128, IOSQE_ASYNC },
		{ IORING_SETUP_SQE128 | IORING_SETUP_SQPOLL, 0 },
	};
	struct kvt_unmap u = { .bytes = 4 << 14 };
	struct kvt_way way = { .fd = b->fd };
	char big[15000];
	size_t i;

	memset(big, 'B', sizeof(big));
	ASSERT_EQ(0, kvt_put(b->fd, STR("big"), kvt_bytes(big, sizeof(big)), NULL));
	kvt_stay_clear_of_uml_race();
	u.mem = mmap(NULL, u.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, u.mem);
	for (i = 0; i < NR(ways); i++) {
		kvt_ring_make(&way.ring, 8, ways[i].setup);
		way.sqe_flags = ways[i].sqe_flags;
		for (u.how = 0; u.how < KVT_UNMAP_WAYS; u.how++) {
			kvt_unmap_start(&u);
			hammer(&way, u.mem, RACES / 5);
			kvt_unmap_stop(&u);
		}
		kvt_ring_exit(&way.ring);
	}
	EXPECT_TRUE(kvt_has(b->fd, STR("big"), kvt_bytes(big, sizeof(big))));
	kvt_check_sound(b->fd);
}

TEST_F(bad, operations_that_a_process_truncates_meanwhile_are_efault)
{
	struct bad *b = &self->b;
	struct kvtree_op op = kvt_op(KVTREE_OP_ADD, kvt_bytes(NULL, 1));
	__u64 told = 0, lost = 0, before;
	struct kvtree_uring_inline in;
	struct kvt_truncate *t;
	__u32 i, form;
	int ret;

	op.flags = KVTREE_F_KEY_INLINE;
	op.key_inline[0] = 'n';
	op.arg = 1;
	kvt_stay_clear_of_uml_race();
	t = kvt_truncate_start(3 * 4096);
	for (i = 0; i < RACES; i++) {
		form = i % KVT_FORMS;
		b->way.sqe_flags = i & 16 ? IOSQE_ASYNC : 0;
		/* Written by pwrite(), which gets no SIGBUS. */
		ASSERT_EQ(64, pwrite(t->fd, &op, 64, 4096));
		if (form <= KVT_INLINE_OUT) {
			in = (struct kvtree_uring_inline){
				.op = op, .out = kvt_ptr(t->mem + 4096),
			};
			kvt_sqe_cmd(kvt_ring_sqe(b->ring), b->fd, KVTREE_URING_OP_INLINE,
				    &in, sizeof(in), 1);
		} else {
			kvt_way_queue(&b->way, form, (void *)(t->mem + 4096), 1);
		}
		ret = kvt_ring_result(b->ring, 1);
		ASSERT_TRUE(ret == (form == KVT_IN_BATCH) || ret == -EFAULT) {
			TH_LOG("%s: %d", kvt_form_names[form], ret);
		}
		/* All zeros: a NOP. */
		if (ret == -EFAULT)
			lost++;
		else
			told++;
	}
	kvt_truncate_stop(t);
	ASSERT_EQ(0, kvt_add(b->fd, STR("n"), 0, 0, &before));
	/* The fixture has added one. */
	EXPECT_GE(1 + told + lost, before);
}

/*
 * Ends
 */
TEST_F(bad, queued_for_a_session_that_is_closed_is_ebadf)
{
	struct bad *b = &self->b;
	int fd = kvt_store(b->env.dev, b->env.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	struct kvt_cqe cqe;
	int form, free_fd;

	ASSERT_LE(0, fd);
	free_fd = fd;
	b->way.fd = fd;
	for (form = 0; form < KVT_FORMS; form++)
		kvt_way_queue(&b->way, form, &op, form);
	kvt_ring_publish(b->ring);
	close(fd);
	for (form = 0; form < KVT_FORMS; form++) {
		kvt_ring_wait(b->ring, &cqe);
		EXPECT_EQ(-EBADF, cqe.res);
	}
	/* Another file has its number now. */
	fd = memfd_create("kvtree-test", MFD_CLOEXEC);
	ASSERT_EQ(free_fd, fd);
	EXPECT_EQ(-EOPNOTSUPP, kvt_way_exec(&b->way, KVT_INLINE, &op, NULL));
	close(fd);
	EXPECT_EQ(b->digest, kvt_digest(b->fd));
}

TEST_F(bad, queued_on_a_ring_that_is_closed_is_not_executed)
{
	struct bad *b = &self->b;
	struct kvtree_op op = kvt_good_op(KVTREE_OP_PUT);
	struct kvt_way way = { .fd = b->fd };
	int form;

	kvt_ring_make(&way.ring, 8, IORING_SETUP_SQE128);
	for (form = 0; form < KVT_FORMS; form++)
		kvt_way_queue(&way, form, &op, form);
	kvt_ring_publish(&way.ring);
	kvt_ring_exit(&way.ring);
	EXPECT_EQ(b->digest, kvt_digest(b->fd));
}

/*
 * Random commands
 */
struct fuzz {
	struct kvt_rand rand;
	struct kvt_arena arena;
	struct kvt_way way;
	struct kvtree_op op;	/* if the command has one */
	bool one;
};

/* An address for an operation or its outcome, valid most of the time. */
static __u64 fuzz_pointer(struct fuzz *z)
{
	if (kvt_rand_below(&z->rand, 4))
		return kvt_ptr(z->arena.mem + 64 * kvt_rand_below(&z->rand, 1000));
	return kvt_random_pointer(&z->rand, &z->arena);
}

static void fuzz_one(struct fuzz *z, struct io_uring_sqe *sqe)
{
	struct kvtree_uring_op arg = { .op_size = 64 };
	struct kvtree_uring_inline in = {};
	void *at;

	kvt_random_op(&z->rand, &z->arena, &z->op);
	z->one = true;
	if (kvt_rand_below(&z->rand, 2)) {
		in.op = z->op;
		in.out = kvt_rand_below(&z->rand, 2) ? fuzz_pointer(z) : 0;
		in.reserved = kvt_rand_below(&z->rand, 16) ? 0 : kvt_rand(&z->rand);
		kvt_sqe_cmd(sqe, z->way.fd, KVTREE_URING_OP_INLINE, &in, sizeof(in), 1);
		return;
	}
	at = z->arena.mem + 64 * kvt_rand_below(&z->rand, 1000);
	memcpy(at, &z->op, sizeof(z->op));
	arg.op = kvt_ptr(at);
	if (!kvt_rand_below(&z->rand, 8)) {
		arg.op = fuzz_pointer(z);
		/* With random content. */
		z->one = false;
	}
	arg.op_size = kvt_rand_below(&z->rand, 8) ? 64 : kvt_random_number(&z->rand);
	arg.flags = kvt_rand_below(&z->rand, 16) ? 0 : kvt_rand(&z->rand);
	kvt_sqe_cmd(sqe, z->way.fd, KVTREE_URING_OP, &arg, sizeof(arg), 1);
}

static void fuzz_many(struct fuzz *z, struct io_uring_sqe *sqe)
{
	__u32 i, nr = kvt_rand_below(&z->rand, 40);
	struct kvtree_op *ops = (void *)(z->arena.mem + 64 * kvt_rand_below(&z->rand, 900));
	struct kvtree_uring_batch batch = { .ops = kvt_ptr(ops), .nr = nr, .op_size = 64 };

	for (i = 0; i < nr; i++)
		kvt_random_op(&z->rand, &z->arena, &ops[i]);
	if (!kvt_rand_below(&z->rand, 8))
		batch.nr = kvt_random_number(&z->rand);
	if (!kvt_rand_below(&z->rand, 8))
		batch.op_size = kvt_random_number(&z->rand);
	if (!kvt_rand_below(&z->rand, 16))
		batch.flags = kvt_rand(&z->rand);
	if (!kvt_rand_below(&z->rand, 8))
		batch.ops = fuzz_pointer(z);
	kvt_sqe_cmd(sqe, z->way.fd, KVTREE_URING_BATCH, &batch, sizeof(batch), 1);
}

static void fuzz_any(struct fuzz *z, struct io_uring_sqe *sqe)
{
	static const __u32 cmds[] = {
		KVTREE_URING_OP, KVTREE_URING_OP_INLINE, KVTREE_URING_BATCH, KVTREE_URING_CANCEL,
	};
	unsigned char arg[80] = {};

	kvt_random_bytes(&z->rand, arg, kvt_rand_below(&z->rand, sizeof(arg) + 1));
	kvt_sqe_cmd(sqe, z->way.fd, cmds[kvt_rand_below(&z->rand, NR(cmds))], arg, sizeof(arg), 1);
	if (!kvt_rand_below(&z->rand, 8))
		sqe->off ^= 1ull << kvt_rand_below(&z->rand, 33);
	if (!kvt_rand_below(&z->rand, 8))
		sqe->addr = kvt_rand(&z->rand);
	if (!kvt_rand_below(&z->rand, 8))
		sqe->len = kvt_rand(&z->rand);
}

static int fuzz_run(struct fuzz *z)
{
	struct io_uring_sqe *sqe = kvt_ring_sqe(&z->way.ring);

	z->one = false;
	switch (kvt_rand_below(&z->rand, 8)) {
	case 0:
		fuzz_any(z, sqe);
		break;
	case 1:
	case 2:
		fuzz_many(z, sqe);
		break;
	default:
		fuzz_one(z, sqe);
	}
	if (!kvt_rand_below(&z->rand, 4))
		sqe->flags = IOSQE_ASYNC;
	if (!kvt_rand_below(&z->rand, 4)) {
		sqe->rw_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = kvt_rand_below(&z->rand, 2);
	}
	return kvt_ring_result(&z->way.ring, 1);
}

/* Make room in a store that may be full. */
static void thin_out(int fd)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	size_t i;

	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 16, &list) == 0);
	for (i = 0; i < list.nr; i += 2)
		KVT_CHECK(kvt_remove(fd, list.rec[i].key) == 0);
	kvt_list_free(&list);
}

TEST_F(bad, random_commands_get_documented_results)
{
	struct bad *b = &self->b;
	static struct fuzz fuzz, *z = &fuzz;
	char name[KVTREE_NAME_MAX];
	struct iovec iov;
	__u64 before, after;
	int i, fd, ret;

	/* Small enough to be checked after each command. */
	snprintf(name, sizeof(name), "uring-fuzz-%d", getpid());
	ASSERT_EQ(0, kvt_create(b->env.dev, name, 0600, 1 << 17, 32));
	fd = kvt_store(b->env.dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	kvt_arena_make(&z->arena);
	kvt_rand_init(&z->rand, 11);
	kvt_random_arena(&z->rand, &z->arena);
	kvt_ring_make(&z->way.ring, 8, IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
	z->way.fd = fd;
	iov = (struct iovec){ z->arena.mem, 1 << 16 };
	ASSERT_EQ(0, kvt_ring_buffers(&z->way.ring, &iov, 1));
	before = kvt_digest(fd);
	for (i = 0; i < 6000; i++) {
		if (i % 256 == 0)
			kvt_random_arena(&z->rand, &z->arena);
		ret = fuzz_run(z);
		ASSERT_TRUE(kvt_documented(ret) || ret == -EALREADY) {
			TH_LOG("round %d: %d", i, ret);
		}
		after = kvt_digest(fd);
		/* EFAULT may mean that only the outcome was lost. */
		if (z->one && ret < 0 && ret != -EFAULT) {
			ASSERT_EQ(before, after) {
				TH_LOG("round %d: operation %u, flags %x: %d", i, z->op.opcode,
				       z->op.flags, ret);
			}
		}
		before = after;
	}
	thin_out(fd);
	kvt_check_sound(fd);
	/* No other store has changed. */
	EXPECT_EQ(b->digest, kvt_digest(b->fd));
	kvt_ring_exit(&z->way.ring);
	close(fd);
	ASSERT_EQ(0, kvt_destroy(b->env.dev, name));
}

TEST_HARNESS_MAIN
