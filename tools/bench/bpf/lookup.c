// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups.  For each key size, a hash map and a store hold the same keys, and a trie and
 * a store hold the same prefixes; programs look up random keys.
 *
 * The time of a lookup is the time of a program with many lookups, minus the time of one
 * without them in the same round.  All programs of a round choose the same keys, and must
 * find the same values.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <kvtree.h>
#include <linux/kvtree.h>

#include "bench_bpf.h"
#include "lookup.h"
#include "lookup.skel.h"

/* Percentage of the looked-up keys that begin with a prefix in the trie. */
#define COVERED		90u
#define PREFIX_MIN	3u

enum { NOTHING, HASH, GET, NOTHING_PREFIX, TRIE, LPM, KINDS };

struct size {
	unsigned int bytes;
	const char *get, *lpm, *memory;		/* workloads */
	const char *get_ratio, *lpm_ratio;
	double get_at_most;
	struct lookup_bpf *skel;
	struct row *row[KINDS];
};

static struct size sizes[] = {
	{ 8, "lookup of an 8-byte key", "longest prefix of an 8-byte key",
	  "memory, 8-byte keys", "lookup_time_vs_hash_8", "lpm_time_vs_lpm_trie_8", 3.5 },
	{ 16, "lookup of a 16-byte key", "longest prefix of a 16-byte key",
	  "memory, 16-byte keys", "lookup_time_vs_hash_16", "lpm_time_vs_lpm_trie_16", 0 },
	{ 64, "lookup of a 64-byte key", "longest prefix of a 64-byte key",
	  "memory, 64-byte keys", "lookup_time_vs_hash_64", "lpm_time_vs_lpm_trie_64", 0 },
};

static struct rng rng = { 1 };

static void random_bytes(uint8_t *to, unsigned int n)
{
	while (n--)
		*to++ = rng_next(&rng) >> 56;
}

static struct kvtree *store_open(const char *kind, unsigned int bytes)
{
	struct kvtree_store_create args = { .mode = 0600, .flags = KVTREE_STORE_BPF };
	struct kvtree *kv;
	int err;

	snprintf(args.name, sizeof(args.name), "bench-bpf-%s-%u", kind, bytes);
	err = kvtree_open(NULL, KVTREE_OPEN_READ, &kv);
	if (err)
		die("/dev/kvtree: %s", kvtree_strerror(err));
	kvtree_store_destroy(kv, args.name);
	err = kvtree_store_create(kv, &args, sizeof(args));
	if (err)
		die("creating the store %s: %s", args.name, kvtree_strerror(err));
	kvtree_close(kv);
	err = kvtree_open(args.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, &kv);
	if (err)
		die("opening the store %s: %s", args.name, kvtree_strerror(err));
	return kv;
}

static void store_put(struct kvtree *kv, const void *key, unsigned int len, uint64_t value)
{
	int err = kvtree_put(kv, kvtree_slice(key, len), kvtree_slice(&value, sizeof(value)), 0,
			     NULL);

	if (err)
		die("put: %s", kvtree_strerror(err));
}

static double store_bytes(const struct kvtree *kv)
{
	uint64_t stat[KVTREE_STAT_NR];

	if (kvtree_stat(kv, stat, KVTREE_STAT_NR) < 0)
		die("a store's counters cannot be read");
	return stat[KVTREE_STAT_BYTES];
}

/* The memory charged for a map, from the kernel. */
static double map_bytes(int fd)
{
	char path[64], line[128];
	double bytes = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "memlock: %lf", &bytes);
	if (f)
		fclose(f);
	if (bytes < 0)
		die("%s does not tell how much memory the map takes", path);
	return bytes;
}

static void memory_row(const struct plan *plan, const struct size *s, const char *system,
		       double bytes)
{
	struct row *row = row_new(plan, s->memory, system, "bytes/entry");
	unsigned int i;

	for (i = 0; i <= plan->rounds; i++)
		row_set(row, i, bytes / plan->keys);
}

/* Random, distinct keys for the hash map. */
static double fill_exact(const struct plan *plan, struct size *s, struct kvtree *kv)
{
	int fd = bpf_map__fd(s->skel->maps.hash);
	double before = store_bytes(kv);
	struct probe *probe;
	uint64_t i;

	for (i = 0; i < plan->keys; i++) {
		probe = &s->skel->bss->exact[i];
		do {
			random_bytes(probe->data, s->bytes);
		} while (bpf_map_update_elem(fd, probe->data, &i, BPF_NOEXIST));
		store_put(kv, probe->data, s->bytes, i);
	}
	return store_bytes(kv) - before;
}

/*
 * Prefixes of whole bytes: kvtree has no others.  A third of them begin with another
 * prefix, like a route to a part of a network.
 */
static double fill_prefixes(const struct plan *plan, struct size *s, struct kvtree *kv)
{
	struct trie_key *keys = calloc(plan->keys, sizeof(*keys)), *key, *outer;
	int fd = bpf_map__fd(s->skel->maps.trie);
	double before = store_bytes(kv);
	unsigned int len, inside;
	struct probe *probe;
	uint64_t i;

	if (!keys)
		die("out of memory");
	for (i = 0; i < plan->keys; i++) {
		key = &keys[i];
		do {
			len = PREFIX_MIN + rng_below(&rng, s->bytes - PREFIX_MIN + 1);
			memset(key, 0, sizeof(*key));
			random_bytes(key->data, len);
			if (i && !rng_below(&rng, 3)) {
				outer = &keys[rng_below(&rng, i)];
				inside = outer->bits / 8 < len ? outer->bits / 8 : len;
				memcpy(key->data, outer->data, inside);
			}
			key->bits = len * 8;
		} while (bpf_map_update_elem(fd, key, &i, BPF_NOEXIST));
		store_put(kv, key->data, len, i);
	}
	for (i = 0; i < plan->keys; i++) {
		probe = &s->skel->bss->covered[i];
		random_bytes(probe->data, s->bytes);
		key = &keys[rng_below(&rng, plan->keys)];
		if (rng_below(&rng, 100) < COVERED)
			memcpy(probe->data, key->data, key->bits / 8);
	}
	free(keys);
	return store_bytes(kv) - before;
}

static void bind(const struct kvtree *kv, const struct bpf_map *map)
{
	int err = kvtree_bpf_bind(kv, bpf_map__fd(map), KVTREE_OPEN_READ);

	if (err)
		die("the programs cannot use the store: %s", kvtree_strerror(err));
}

static void load(const struct plan *plan, struct size *s, const struct kvtree *exact,
		 const struct kvtree *prefix)
{
	s->skel = lookup_bpf__open();
	if (!s->skel)
		die("the programs cannot be opened");
	s->skel->rodata->key_len = s->bytes;
	s->skel->rodata->nr_probes = plan->keys;
	bpf_map__set_key_size(s->skel->maps.hash, s->bytes);
	bpf_map__set_key_size(s->skel->maps.trie, sizeof(__u32) + s->bytes);
	bpf_map__set_max_entries(s->skel->maps.hash, plan->keys);
	bpf_map__set_max_entries(s->skel->maps.trie, plan->keys);
	if (lookup_bpf__load(s->skel))
		die("the programs cannot be loaded: is the module, with its BTF?");
	bind(exact, s->skel->maps.rodata_exact_store);
	bind(prefix, s->skel->maps.rodata_prefix_store);
}

static void prepare(const struct plan *plan, struct size *s)
{
	static const char * const systems[KINDS] = {
		[HASH] = "BPF_MAP_TYPE_HASH",
		[GET] = "kvtree, bpf_kvt_get",
		[TRIE] = "BPF_MAP_TYPE_LPM_TRIE",
		[LPM] = "kvtree, bpf_kvt_lpm",
	};
	struct kvtree *exact_kv, *prefix_kv;
	double bytes;
	int kind;

	note("%u-byte keys: filling maps and stores", s->bytes);
	exact_kv = store_open("exact", s->bytes);
	prefix_kv = store_open("prefix", s->bytes);
	load(plan, s, exact_kv, prefix_kv);
	for (kind = 0; kind < KINDS; kind++)
		if (systems[kind])
			s->row[kind] = row_new(plan, kind < NOTHING_PREFIX ? s->get : s->lpm,
					       systems[kind], "ns");
	bytes = fill_exact(plan, s, exact_kv);
	memory_row(plan, s, systems[HASH], map_bytes(bpf_map__fd(s->skel->maps.hash)));
	memory_row(plan, s, "kvtree, the same keys", bytes);
	bytes = fill_prefixes(plan, s, prefix_kv);
	memory_row(plan, s, systems[TRIE], map_bytes(bpf_map__fd(s->skel->maps.trie)));
	memory_row(plan, s, "kvtree, the same prefixes", bytes);
	kvtree_close(exact_kv);
	kvtree_close(prefix_kv);
}

static int program_fd(const struct size *s, int kind)
{
	struct bpf_program * const programs[KINDS] = {
		[NOTHING] = s->skel->progs.look_nothing,
		[HASH] = s->skel->progs.look_hash,
		[GET] = s->skel->progs.look_kvtree,
		[NOTHING_PREFIX] = s->skel->progs.look_nothing_prefix,
		[TRIE] = s->skel->progs.look_trie,
		[LPM] = s->skel->progs.look_kvtree_prefix,
	};

	return bpf_program__fd(programs[kind]);
}

/* Run a program this many times, and return nanoseconds for each lookup. */
static double run_program(const struct size *s, int kind, unsigned int repeat, uint64_t seed)
{
	struct lookup_bpf__bss *bss = s->skel->bss;
	char packet[64] = { 0 };
	struct bpf_test_run_opts opts = {
		.sz = sizeof(opts),
		.data_in = packet,
		.data_size_in = sizeof(packet),
		.repeat = repeat,
	};

	bss->seed = seed;
	bss->found = 0;
	bss->sum = 0;
	if (bpf_prog_test_run_opts(program_fd(s, kind), &opts))
		die("a program cannot be run");
	return (double)opts.duration / LOOKUPS;
}

struct answer {
	uint64_t found, sum;
};

static double timed(const struct size *s, int kind, unsigned int repeat, uint64_t seed,
		    struct answer *answer)
{
	double ns = run_program(s, kind, repeat, seed);

	*answer = (struct answer) { s->skel->bss->found, s->skel->bss->sum };
	return ns;
}

/* Compare a map with kvtree, which must find the same, and with an empty program. */
static void compare(const struct plan *plan, struct size *s, int nothing, unsigned int round,
		    bool all)
{
	uint64_t seed = rng_next(&rng);
	struct answer map, kvtree, none;
	double base, ns[2];
	unsigned int repeat;

	base = timed(s, nothing + 2, 16, seed, &none);
	repeat = plan->seconds * 1e9 / (base * LOOKUPS) + 1;
	base = timed(s, nothing, repeat, seed, &none);
	ns[0] = timed(s, nothing + 1, repeat, seed, &map);
	ns[1] = timed(s, nothing + 2, repeat, seed, &kvtree);
	if (map.found != kvtree.found || map.sum != kvtree.sum ||
	    (all && map.found != (uint64_t)repeat * LOOKUPS))
		die("%u-byte keys: the map found %llu of %llu, kvtree %llu, or not the same",
		    s->bytes, (unsigned long long)map.found,
		    (unsigned long long)repeat * LOOKUPS, (unsigned long long)kvtree.found);
	row_set(s->row[nothing + 1], round, ns[0] - base);
	row_set(s->row[nothing + 2], round, ns[1] - base);
}

/* Run on one CPU. */
static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("this process cannot be bound to a CPU");
}

static double rows_ratio(struct row *a, struct row *b)
{
	return row_median(a) / row_median(b);
}

/**
 * lookup_measure() - measure lookups in maps and in kvtree
 * @plan: the plan
 */
void lookup_measure(const struct plan *plan)
{
	unsigned int round;
	double lpm, worst = 0;
	struct size *s;

	pin();
	for (s = sizes; s < sizes + ARRAY_SIZE(sizes); s++)
		prepare(plan, s);
	for (round = 0; round <= plan->rounds; round++) {
		progress(plan, "lookups", round);
		for (s = sizes; s < sizes + ARRAY_SIZE(sizes); s++) {
			compare(plan, s, NOTHING, round, true);
			compare(plan, s, NOTHING_PREFIX, round, false);
		}
	}
	progress(plan, "lookups", round);
	for (s = sizes; s < sizes + ARRAY_SIZE(sizes); s++) {
		ratio_add(s->get_ratio, rows_ratio(s->row[GET], s->row[HASH]), 0,
			  s->get_at_most);
		lpm = rows_ratio(s->row[LPM], s->row[TRIE]);
		ratio_add(s->lpm_ratio, lpm, 0, 0);
		worst = lpm > worst ? lpm : worst;
		lookup_bpf__destroy(s->skel);
	}
	ratio_add("lpm_time_vs_lpm_trie", worst, 0, 1);
}
