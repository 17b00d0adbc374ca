// SPDX-License-Identifier: GPL-2.0
/*
 * Hooks that are C functions, also for kernels that cannot run BPF programs: what they
 * are shown, how they are attached and detached, and that nothing is published that the
 * validator has not seen.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "api/run.h"
#include "api/scan.h"
#include "api/scratch.h"
#include "base/index.h"
#include "base/value.h"
#include "bpf/bpf.h"
#include "bpf_call.h"
#include "core/binding.h"
#include "core/hook.h"
#include "core/store.h"
#include "core/stores.h"
#include "lib.h"
#include "thread.h"

#define STORE	"kunit-hook"
#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

/* State of the running case. */
static struct {
	struct kvt_store *store;
	struct call_map map;	/* bound to it */
	atomic_t asked;		/* by several threads */
	bool wrong;		/* a record was not what it should be */
	bool meddle;		/* change the key while the validator looks at it */
	/* A writer is held until the store has another validator. */
	struct kt_thread writer;
	enum kvt_park at;	/* where; NR: in the validator */
	bool held;
	bool in_time;		/* it has seen the change */
	bool returned;		/* the change of the validator has returned */
	bool early;		/* ... with the writer still held */
} hk;

static void hk_open_engine(struct kunit *test, const char *engine)
{
	struct kvtree_store_create args = { .name = STORE };

	memset(&hk, 0, sizeof(hk));
	strscpy(args.engine, engine);
	KUNIT_ASSERT_EQ(test, 0, kvt_store_create(&args));
	hk.store = kvt_store_find(STORE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(hk.store));
	KUNIT_ASSERT_EQ(test, 0, kvt_bpf_prepare());
	KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(hk.store));
	KUNIT_ASSERT_EQ(test, 0, call_bind(&hk.map, hk.store, RW));
}

static void hk_open(struct kunit *test)
{
	hk_open_engine(test, "");
}

static void hk_exit(struct kunit *test)
{
	kvt_store_destroy(STORE);
	if (!IS_ERR_OR_NULL(hk.store))
		kvt_store_put(hk.store);
	hk.store = NULL;
}

#define CALL_OF(...)	((struct call) { .store = &hk.map.value, ##__VA_ARGS__ })

static int put(const char *key, const char *val)
{
	struct call call = CALL_OF();

	return call_put(&call, (void *)key, strlen(key), (void *)val, strlen(val));
}

static int put_col(const char *key, u16 col, const char *val)
{
	struct call call = CALL_OF(.flags = BPF_KVT_COL, .col = col);

	return call_put(&call, (void *)key, strlen(key), (void *)val, strlen(val));
}

static struct kvt_hook_args hook_args(u32 kind, const char *name, kvt_hook_fn call,
				      const u32 *owner)
{
	return (struct kvt_hook_args) {
		.kind = kind, .store = STORE, .name = name, .call = call, .owner = owner,
	};
}

static int attach(u32 kind, const char *name, kvt_hook_fn call, const u32 *owner)
{
	const struct kvt_hook_args args = hook_args(kind, name, call, owner);

	return kvt_hook_attach(&args);
}

static bool column_is(struct bpf_kvt_record *rec, u32 col, const char *text)
{
	char buf[16] = {};

	return bpf_kvt_record_column_len(rec, col) == strlen(text) &&
	       bpf_kvt_record_column(rec, col, 0, buf, sizeof(buf)) == strlen(text) &&
	       !memcmp(buf, text, strlen(text));
}

static int no(struct bpf_kvt_record *rec)
{
	return 0;
}

/* Columns 1 and 2 are not both "x". */
static int not_both_x(struct bpf_kvt_record *rec)
{
	atomic_inc(&hk.asked);
	if (hk.meddle) {
		hk.meddle = false;
		put_col("k", 2, "x");
	}
	return !column_is(rec, 1, "x") || !column_is(rec, 2, "x");
}

/* The record that the case below makes. */
#define BLOB	5000

static int check_record(struct bpf_kvt_record *rec)
{
	char buf[64];

	atomic_inc(&hk.asked);
	hk.wrong = rec->key_len != 12 || rec->ncols != 3 || rec->val_len != 3 || !rec->version;
	hk.wrong |= bpf_kvt_record_key(rec, 0, buf, sizeof(buf)) != 12 ||
		    memcmp(buf, "a long key: ", 12);
	hk.wrong |= bpf_kvt_record_key(rec, 7, buf, 3) != 3 || memcmp(buf, "key", 3);
	hk.wrong |= bpf_kvt_record_key(rec, 12, buf, 3) || bpf_kvt_record_key(rec, U32_MAX, buf, 3);
	hk.wrong |= !column_is(rec, 0, "abc") || !column_is(rec, 255, "");
	hk.wrong |= bpf_kvt_record_column(rec, 0, 1, buf, 1) != 1 || *buf != 'b';
	hk.wrong |= bpf_kvt_record_column_len(rec, 4) != BLOB;
	hk.wrong |= bpf_kvt_record_column(rec, 4, BLOB - 5, buf, sizeof(buf)) != 5;
	hk.wrong |= bpf_kvt_record_column(rec, 4, BLOB, buf, sizeof(buf)) != 0;
	hk.wrong |= bpf_kvt_record_column(rec, 1, 0, buf, sizeof(buf)) != -ENOENT ||
		    bpf_kvt_record_column_len(rec, 1) != -ENOENT;
	hk.wrong |= bpf_kvt_record_column(rec, 256, 0, buf, sizeof(buf)) != -EINVAL ||
		    bpf_kvt_record_column_len(rec, U32_MAX) != -EINVAL;
	return 1;
}

static void a_filter_is_shown_the_record_as_it_is(struct kunit *test)
{
	struct kvt_key key = { .data = "a long key: ", .len = 12 };
	struct call call;
	u8 *blob = kunit_kzalloc(test, BLOB, GFP_KERNEL);
	struct kvtree_bpf_hook info = {};
	struct kvt_hook *hook;
	struct kvt_cell cell;
	struct kvt_value *v;
	u32 owner = 77;

	hk_open(test);
	KUNIT_ASSERT_NOT_NULL(test, blob);
	call = CALL_OF(.flags = BPF_KVT_COL, .col = 4);
	KUNIT_ASSERT_EQ(test, 0, call_put(&call, (void *)key.data, 12, blob, BLOB));
	KUNIT_ASSERT_EQ(test, 0, put_col(key.data, 0, "abc"));
	KUNIT_ASSERT_EQ(test, 0, put_col(key.data, 255, ""));
	KUNIT_ASSERT_EQ(test, 0, attach(KVTREE_HOOK_FILTER, "f", check_record, &owner));
	KUNIT_ASSERT_EQ(test, 0, kvt_hook_list(hk.store, &info));
	rcu_read_lock();
	hook = kvt_hook_filter(hk.store, info.id);
	KUNIT_EXPECT_NOT_NULL(test, hook);
	KUNIT_EXPECT_NULL(test, kvt_hook_filter(hk.store, info.id + 1));
	KUNIT_EXPECT_NULL(test, kvt_hook_filter(NULL, info.id));
	v = hk.store->index->ops->get(hk.store->index, &key, &cell);
	KUNIT_EXPECT_TRUE(test, hook && kvt_hook_match(hook, &key, v));
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&hk.asked));
	KUNIT_EXPECT_FALSE(test, hk.wrong);
	memset(&info, 0, sizeof(info));
	KUNIT_EXPECT_EQ(test, 0, kvt_hook_list(hk.store, &info));
	KUNIT_EXPECT_EQ(test, 77, info.link_id);
	KUNIT_EXPECT_EQ(test, 1, info.calls);
	KUNIT_EXPECT_EQ(test, 0, info.refused);
	kvt_hook_detach(&owner);
	rcu_read_lock();
	KUNIT_EXPECT_NULL(test, kvt_hook_filter(hk.store, info.id));
	rcu_read_unlock();
}

static void hooks_come_and_go_by_the_rules(struct kunit *test)
{
	struct kvt_hook_args args;
	u32 owner[3] = {};

	hk_open(test);
	KUNIT_EXPECT_EQ(test, -EINVAL, attach(KVTREE_HOOK_FILTER, "1st", no, owner));
	KUNIT_EXPECT_EQ(test, -EINVAL, attach(KVTREE_HOOK_FILTER, "a b", no, owner));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			attach(KVTREE_HOOK_FILTER, "abcdefghijklmnopqrstuvwxyzabcdef", no, owner));
	KUNIT_ASSERT_EQ(test, 0, attach(KVTREE_HOOK_FILTER, "one", no, &owner[0]));
	KUNIT_EXPECT_EQ(test, -EEXIST, attach(KVTREE_HOOK_FILTER, "one", no, &owner[1]));
	KUNIT_ASSERT_EQ(test, 0, attach(KVTREE_HOOK_VALIDATOR, "", no, &owner[1]));
	KUNIT_EXPECT_EQ(test, -EEXIST, attach(KVTREE_HOOK_VALIDATOR, "two", no, &owner[2]));
	KUNIT_EXPECT_EQ(test, -EKEYREJECTED, put("k", "v"));
	args = hook_args(KVTREE_HOOK_VALIDATOR, "", not_both_x, &owner[1]);
	KUNIT_EXPECT_EQ(test, 0, kvt_hook_replace(&args));
	KUNIT_EXPECT_EQ(test, 0, put("k", "v"));
	args.name = "one";
	KUNIT_EXPECT_EQ(test, -EINVAL, kvt_hook_replace(&args));
	args.owner = &owner[2];
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_hook_replace(&args));
	args.store = STORE "-not";
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_hook_attach(&args));
	KUNIT_EXPECT_EQ(test, -ENOENT, kvt_hook_replace(&args));
	/* The store drops its hooks; owners detach later, when others may be attached. */
	kvt_bindings_forbid(hk.store);
	kvt_hooks_drop(hk.store);
	args = hook_args(KVTREE_HOOK_VALIDATOR, "", no, &owner[1]);
	KUNIT_EXPECT_EQ(test, -EPERM, kvt_hook_attach(&args));
	KUNIT_EXPECT_EQ(test, -EPERM, kvt_hook_replace(&args));
	KUNIT_ASSERT_EQ(test, 0, kvt_bindings_allow(hk.store));
	KUNIT_ASSERT_EQ(test, 0, call_bind(&hk.map, hk.store, RW));
	KUNIT_EXPECT_EQ(test, 0, put("k", "w"));
	KUNIT_EXPECT_EQ(test, 0, attach(KVTREE_HOOK_VALIDATOR, "", no, &owner[2]));
	kvt_hook_detach(&owner[0]);
	kvt_hook_detach(&owner[1]);
	kvt_hook_detach(&owner[1]);
	KUNIT_EXPECT_EQ(test, -EKEYREJECTED, put("k", "x"));
	/* And with the store. */
	KUNIT_EXPECT_EQ(test, 0, kvt_store_destroy(STORE));
	kvt_hook_detach(&owner[2]);
}

static void a_merge_that_was_overtaken_is_validated_again(struct kunit *test)
{
	struct call call;
	u32 owner;
	char val[8];

	hk_open(test);
	KUNIT_ASSERT_EQ(test, 0, put("k", ""));
	KUNIT_ASSERT_EQ(test, 0, attach(KVTREE_HOOK_VALIDATOR, "v", not_both_x, &owner));
	/* It is valid when the validator is asked, and invalid when it would be published. */
	hk.meddle = true;
	KUNIT_EXPECT_EQ(test, -EKEYREJECTED, put_col("k", 1, "x"));
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&hk.asked));
	call = CALL_OF(.col = 1);
	KUNIT_EXPECT_EQ(test, 0, call_get(&call, "k", 1, val, sizeof(val)));
	KUNIT_EXPECT_EQ(test, BPF_KVT_ABSENT, call.val_len);
	call = CALL_OF(.col = 2);
	KUNIT_EXPECT_EQ(test, 1, call_get(&call, "k", 1, val, sizeof(val)));
	/* A change that is still valid after the other one is made. */
	hk.meddle = true;
	KUNIT_EXPECT_EQ(test, 0, put_col("k", 3, "y"));
	call = CALL_OF(.col = 3);
	KUNIT_EXPECT_EQ(test, 1, call_get(&call, "k", 1, val, sizeof(val)));
	kvt_hook_detach(&owner);
}

/* Threads */
struct duel {
	u16 col;
	bool stop;
	unsigned int made;
	unsigned int refused;
	unsigned int wrong;
};

/* Both put "x", each in its own column. */
static int duel_run(void *arg)
{
	struct duel *duel = arg;
	int err;

	while (!READ_ONCE(duel->stop)) {
		err = put_col("k", duel->col, "x");
		if (!err)
			WRITE_ONCE(duel->made, duel->made + 1);
		else if (err == -EKEYREJECTED)
			duel->refused++;
		/* Overtaken too often, or no memory at present. */
		else if (err != -EBUSY && err != -EAGAIN && err != -ENOMEM)
			duel->wrong++;
		do {
			err = put_col("k", duel->col, "-");
			cond_resched();
		} while (err == -EBUSY || err == -EAGAIN || err == -ENOMEM);
		if (err && err != -EKEYREJECTED)
			duel->wrong++;
	}
	return 0;
}

static bool both_x(void)
{
	struct call call = CALL_OF(.flags = BPF_KVT_ALL_COLS);
	u8 val[64];
	int ret = call_get(&call, "k", 1, val, sizeof(val));

	/* Columns 0 (empty), 1 and 2. */
	return ret == 3 * sizeof(struct bpf_kvt_col) + 2 && !memcmp(val + ret - 2, "xx", 2);
}

static void threads_publish_nothing_that_was_not_validated(struct kunit *test)
{
	struct duel duel[2] = { { .col = 1 }, { .col = 2 } };
	struct kt_thread thread[2];
	unsigned int i, both = 0;
	u32 owner, other;

	hk_open(test);
	KUNIT_ASSERT_EQ(test, 0, put("k", ""));
	KUNIT_ASSERT_EQ(test, 0, put_col("k", 1, "-"));
	KUNIT_ASSERT_EQ(test, 0, put_col("k", 2, "-"));
	KUNIT_ASSERT_EQ(test, 0, attach(KVTREE_HOOK_VALIDATOR, "v", not_both_x, &owner));
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&thread[i], i % num_online_cpus(),
							duel_run, &duel[i]));
		kt_thread_start(&thread[i]);
	}
	/* Each gets a turn at some time. */
	for (i = 0; i < 5000 || !READ_ONCE(duel[0].made) || !READ_ONCE(duel[1].made); i++) {
		both += both_x();
		if (i % 64 == 0)
			cond_resched();
	}
	/* Attach and detach hooks meanwhile. */
	for (i = 0; i < 20; i++) {
		KUNIT_EXPECT_EQ(test, 0, attach(KVTREE_HOOK_FILTER, "f", no, &other));
		kvt_hook_detach(&other);
		kvt_hook_detach(&owner);
		KUNIT_EXPECT_EQ(test, 0, attach(KVTREE_HOOK_VALIDATOR, "v", no, &owner));
		cond_resched();
	}
	for (i = 0; i < 2; i++)
		WRITE_ONCE(duel[i].stop, true);
	/* At the end they leave a value that is allowed. */
	kvt_hook_detach(&owner);
	for (i = 0; i < 2; i++) {
		kt_thread_join(&thread[i]);
		kunit_info(test, "%u made, %u refused", duel[i].made, duel[i].refused);
		KUNIT_EXPECT_NE(test, 0, duel[i].made);
		KUNIT_EXPECT_EQ(test, 0, duel[i].wrong);
	}
	KUNIT_EXPECT_EQ(test, 0, both);
}

/* Marks */

/* A few records more than a scan shows to a filter for one buffer. */
#define MARKED		4100
#define MARK_PREFIX	"pre"
#define MARK_ROOM	4096

#define BEYOND		"zzz"

/*
 * An engine with an iterator that gives up between two records: after 32 of them, and
 * after the last one, beyond the prefix.  Iterators may do so whenever they meet a writer.
 */
static struct {
	struct kvt_index_ops ops;
	const struct kvt_index_ops *of;
	unsigned int left;	/* until it gives up */
} pausing;

static int pausing_next(struct kvt_iter *iter, struct kvt_pair *pairs, unsigned int max)
{
	int nr;

	if (!pausing.left) {
		pausing.left = UINT_MAX;
		return -EAGAIN;
	}
	nr = pausing.of->iter_next(iter, pairs, min(max, pausing.left));
	if (nr > 0) {
		pausing.left -= nr;
	} else if (!nr) {
		iter->len = strlen(BEYOND);
		memcpy(iter->key, BEYOND, iter->len);
		iter->bound = KVT_AT;
		nr = -EAGAIN;
	}
	return nr;
}

static void pausing_begin(struct kvt_index *index)
{
	pausing.of = index->ops;
	pausing.ops = *index->ops;
	pausing.ops.iter_next = pausing_next;
	pausing.left = 32;
	index->ops = &pausing.ops;
}

static void pausing_end(struct kvt_index *index)
{
	index->ops = pausing.of;
}

/* A scan of the prefix, from @key on, with the filter.  Returns bytes at @user, or an error. */
static int scan_filtered(u64 user, const char *key, u32 flags)
{
	struct kvtree_scan args = {
		.flags = KVTREE_SCAN_PREFIX | KVTREE_SCAN_KEYS_ONLY | flags,
		.prefix_len = strlen(MARK_PREFIX),
	};
	struct kvtree_op op = {
		.arg = user, .arg_size = sizeof(args),
		.val = user + sizeof(args), .val_len = MARK_ROOM,
	};
	const struct kvt_key from = { .data = key, .len = strlen(key) };
	struct kvtree_bpf_hook info = {};
	struct kvt_scratch scratch = {};
	const struct kvt_op_ctx ctx = {
		.store = hk.store, .access = KVTREE_OPEN_READ, .gfp = KVT_GFP_PROCESS,
		.scratch = &scratch,
	};
	int ret;

	ret = kvt_hook_list(hk.store, &info);
	if (ret)
		return ret;
	args.filter_id = info.id;
	if (copy_to_user(u64_to_user_ptr(op.arg), &args, sizeof(args)))
		return -EFAULT;
	ret = kvt_scan(&ctx, &op, &from);
	kvt_scratch_exit(&scratch);
	return ret;
}

/*
 * The scan ends where the iterator has left the prefix and gives up between two
 * records.
 */
static void a_mark_is_the_key_of_the_last_record_left_out(struct kunit *test)
{
	u32 owner;
	struct kvtree_rec rec;
	unsigned int i;
	int ret;
	char key[16];
	u64 user;

	hk_open(test);
	user = kunit_vm_mmap(test, NULL, 0, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, 0, user);
	for (i = 0; i < MARKED; i++) {
		sprintf(key, MARK_PREFIX "%04u", i);
		KUNIT_ASSERT_EQ(test, 0, put(key, ""));
	}
	KUNIT_ASSERT_EQ(test, 0, attach(KVTREE_HOOK_FILTER, "f", no, &owner));
	pausing_begin(hk.store->index);
	ret = scan_filtered(user, MARK_PREFIX, 0);
	pausing_end(hk.store->index);
	KUNIT_ASSERT_EQ(test, sizeof(rec) + ALIGN(strlen(key), 8), ret);
	user += sizeof(struct kvtree_scan);
	KUNIT_ASSERT_EQ(test, 0, copy_from_user(&rec, u64_to_user_ptr(user), sizeof(rec)));
	KUNIT_EXPECT_EQ(test, KVTREE_REC_MARK, rec.flags);
	KUNIT_ASSERT_EQ(test, strlen(key), rec.key_len);
	KUNIT_ASSERT_EQ(test, 0, copy_from_user(key, u64_to_user_ptr(user + sizeof(rec)),
						rec.key_len));
	KUNIT_EXPECT_STREQ(test, MARK_PREFIX "4099", key);
	user -= sizeof(struct kvtree_scan);
	KUNIT_EXPECT_EQ(test, 0, scan_filtered(user, key, KVTREE_SCAN_AFTER));
	kvt_hook_detach(&owner);
}

/* The writer: wait for the change, and check that it does not return before this continues. */
static void hold(void)
{
	u64 turn = kvt_hook_validator(hk.store);

	WRITE_ONCE(hk.held, true);
	hk.in_time = kt_await_ms(kvt_hook_validator(hk.store) != turn || READ_ONCE(hk.returned),
				 10000);
	kt_linger(20);
	hk.early = READ_ONCE(hk.returned);
}

static void hold_at(enum kvt_park at)
{
	if (at != hk.at || current != hk.writer.task)
		return;
	hk.at = KVT_PARK_NR;
	hold();
}

static int yes(struct bpf_kvt_record *rec)
{
	return 1;
}

static int hold_then_yes(struct bpf_kvt_record *rec)
{
	hold();
	return 1;
}

static int writer_run(void *unused)
{
	int err;

	do {
		err = put("k", "v");
	} while (err == -EBUSY || err == -EAGAIN || err == -ENOMEM);
	return err;
}

/*
 * Put with the validator @old, or none.  While the put is held, "no" becomes the validator.
 * Returns the result of the put.
 */
static int put_while_it_changes(struct kunit *test, const char *engine, enum kvt_park at,
				kvt_hook_fn old)
{
	struct kvt_hook_args args;
	struct call call;
	int err, found;
	u32 owner;

	hk_open_engine(test, engine);
	hk.at = at;
	if (old)
		KUNIT_EXPECT_EQ(test, 0, attach(KVTREE_HOOK_VALIDATOR, "v", old, &owner));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&hk.writer, 1, writer_run, NULL));
	WRITE_ONCE(kvt_park_hook, hold_at);
	WRITE_ONCE(kvt_park_loose_hook, hold_at);
	kt_thread_start(&hk.writer);
	while (!READ_ONCE(hk.held))
		cond_resched();
	args = hook_args(KVTREE_HOOK_VALIDATOR, "v", no, &owner);
	err = old ? kvt_hook_replace(&args) : kvt_hook_attach(&args);
	WRITE_ONCE(hk.returned, true);
	KUNIT_EXPECT_EQ(test, 0, err);
	err = kt_thread_join(&hk.writer);
	WRITE_ONCE(kvt_park_loose_hook, NULL);
	WRITE_ONCE(kvt_park_hook, NULL);
	call = CALL_OF();
	found = call_exists(&call, "k", 1);
	KUNIT_EXPECT_EQ_MSG(test, err ? -ENOENT : 0, found, "%s", engine);
	KUNIT_EXPECT_TRUE_MSG(test, hk.in_time, "%s: the writer saw no change", engine);
	KUNIT_EXPECT_FALSE_MSG(test, hk.early, "%s: there is a writer that has passed", engine);
	kvt_hook_detach(&owner);
	hk_exit(test);
	return err;
}

static const struct hook_engine {
	const char *name;
	enum kvt_park before;	/* a writer has looked for a validator, and holds no place */
	enum kvt_park after;	/* it is validated, and not published */
} hook_engines[] = {
	{ "masstree", KVT_PARK_WRITE_FOUND, KVT_PARK_INSERT_WRITTEN },
	{ "bwtree", KVT_PARK_BW_BEGUN, KVT_PARK_BW_COMMIT },
};

static void hook_engine_desc(const struct hook_engine *engine, char *desc)
{
	strscpy(desc, engine->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(hook_engine, hook_engines, hook_engine_desc);

/* The test is on CPU 0, the writer on CPU 1. */
static void bind_test(struct kunit *test)
{
	KUNIT_ASSERT_TRUE(test, cpu_online(1));
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
}

static void what_the_old_validator_passed_is_not_published_under_the_new(struct kunit *test)
{
	const struct hook_engine *e = test->param_value;

	bind_test(test);
	KUNIT_EXPECT_EQ(test, -EKEYREJECTED,
			put_while_it_changes(test, e->name, KVT_PARK_NR, hold_then_yes));
	KUNIT_EXPECT_EQ(test, -EKEYREJECTED,
			put_while_it_changes(test, e->name, e->before, yes));
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void what_no_validator_has_seen_is_not_published_under_one(struct kunit *test)
{
	const struct hook_engine *e = test->param_value;

	bind_test(test);
	KUNIT_EXPECT_EQ(test, -EKEYREJECTED,
			put_while_it_changes(test, e->name, e->before, NULL));
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void a_change_of_validator_waits_for_writers_that_have_passed(struct kunit *test)
{
	const struct hook_engine *e = test->param_value;

	bind_test(test);
	KUNIT_EXPECT_EQ(test, 0, put_while_it_changes(test, e->name, e->after, yes));
	KUNIT_EXPECT_EQ(test, 0, put_while_it_changes(test, e->name, e->after, NULL));
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static struct kunit_case hook_cases[] = {
	KUNIT_CASE(a_filter_is_shown_the_record_as_it_is),
	KUNIT_CASE(hooks_come_and_go_by_the_rules),
	KUNIT_CASE(a_merge_that_was_overtaken_is_validated_again),
	KUNIT_CASE(threads_publish_nothing_that_was_not_validated),
	KUNIT_CASE(a_mark_is_the_key_of_the_last_record_left_out),
	KUNIT_CASE_PARAM(what_the_old_validator_passed_is_not_published_under_the_new,
			 hook_engine_gen_params),
	KUNIT_CASE_PARAM(what_no_validator_has_seen_is_not_published_under_one,
			 hook_engine_gen_params),
	KUNIT_CASE_PARAM(a_change_of_validator_waits_for_writers_that_have_passed,
			 hook_engine_gen_params),
	{}
};

static struct kunit_suite hook_suite = {
	.name = "kvt_hook",
	.exit = hk_exit,
	.test_cases = hook_cases,
};

kunit_test_suite(hook_suite);
