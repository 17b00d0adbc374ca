// SPDX-License-Identifier: GPL-2.0
/*
 * The parts of kvtree bench that its figures depend on, tested without a kernel: the
 * histogram, the counter of inserted records, and the records that show whether they
 * are what was stored.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>

#include "../../tools/bench/load/bench_load.h"
#include "kselftest_harness.h"

#define SAMPLES		20000
#define THREADS		4
#define INSERTS		80000	/* of each thread: more than a window in all */
#define CLOSE		(1.0 / (1 << 30))	/* nothing but rounding */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Durations of all magnitudes. */
static uint64_t *samples(uint64_t seed)
{
	uint64_t *sample = malloc(SAMPLES * sizeof(*sample));
	struct rng rng;
	int i;

	rng_seed(&rng, seed, 0, 0);
	for (i = 0; i < SAMPLES; i++)
		sample[i] = rng_next(&rng) >> (24 + rng_below(&rng, 39));
	return sample;
}

TEST(percentiles_are_those_of_the_sorted_durations)
{
	static const double percents[] = { 0, 1, 50, 90, 95, 99, 99.9, 99.99, 99.995, 100 };
	struct histogram *h = calloc(1, sizeof(*h));
	uint64_t *sample = samples(1), exact, found;
	double sum = 0;
	int i, rank;

	for (i = 0; i < SAMPLES; i++) {
		histogram_add(h, sample[i]);
		sum += (double)sample[i];
	}
	qsort(sample, SAMPLES, sizeof(*sample), compare);
	for (i = 0; i < (int)ARRAY_SIZE(percents); i++) {
		rank = (int)(percents[i] * SAMPLES / 100 + 0.999999);
		exact = sample[rank ? rank - 1 : 0];
		found = histogram_percentile(h, percents[i]);
		EXPECT_GE(found, exact);
		EXPECT_LE(found, exact + exact / 256);
	}
	EXPECT_EQ(sample[0], h->min);
	EXPECT_EQ(sample[SAMPLES - 1], h->max);
	EXPECT_EQ(h->max, histogram_percentile(h, 100));
	EXPECT_LT(fabs(histogram_mean(h) - sum / SAMPLES), CLOSE * sum / SAMPLES);
	free(sample);
	free(h);
}

TEST(merged_histograms_are_one_of_all_durations)
{
	struct histogram *a = calloc(3, sizeof(*a)), *b = a + 1, *all = a + 2;
	uint64_t *sample = samples(2);
	int i;

	for (i = 0; i < SAMPLES; i++) {
		histogram_add(i % 3 ? a : b, sample[i]);
		histogram_add(all, sample[i]);
	}
	histogram_merge(a, b);
	EXPECT_EQ(0, memcmp(a, all, sizeof(*a)));
	/* What is empty changes nothing. */
	memset(b, 0, sizeof(*b));
	histogram_merge(a, b);
	EXPECT_EQ(0, memcmp(a, all, sizeof(*a)));
	free(sample);
	free(a);
}

TEST(no_duration_is_too_long_or_too_short)
{
	struct histogram *h = calloc(1, sizeof(*h));

	EXPECT_EQ(0, histogram_percentile(h, 50));
	histogram_add(h, 0);
	EXPECT_EQ(0, histogram_percentile(h, 100));
	histogram_add(h, UINT64_MAX);
	EXPECT_EQ(UINT64_MAX, histogram_percentile(h, 100));
	EXPECT_EQ(0, histogram_percentile(h, 50));
	free(h);
}

/* Shared by the threads below. */
static struct inserts inserts;
static atomic_int started;
static _Atomic uint8_t stored[10 + THREADS * INSERTS];

static void *insert_many(void *bad)
{
	uint64_t number, last;
	struct rng rng;
	int i;

	rng_seed(&rng, 3, (uint64_t)atomic_fetch_add(&started, 1), 0);
	for (i = 0; i < INSERTS; i++) {
		while (inserts_crowded(&inserts))
			sched_yield();
		number = inserts_take(&inserts);
		/* Some take longer than others. */
		if (!rng_below(&rng, 64))
			sched_yield();
		stored[number] = 1;
		inserts_done(&inserts, number);
		last = inserts_last(&inserts);
		if (!stored[last] || !stored[rng_below(&rng, last + 1)])
			atomic_fetch_add((atomic_int *)bad, 1);
	}
	return NULL;
}

TEST(records_are_asked_for_when_all_before_them_exist)
{
	pthread_t thread[THREADS];
	atomic_int bad = 0;
	int i;

	memset(stored, 1, 10);
	inserts_begin(&inserts, 10);
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, insert_many, &bad));
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(0, bad);
	/* None is forgotten. */
	EXPECT_EQ(10 + THREADS * INSERTS - 1, inserts_last(&inserts));
	EXPECT_EQ(10 + THREADS * INSERTS, inserts_take(&inserts));
}

TEST(inserts_wait_for_one_that_is_late)
{
	uint64_t late, number = 0;

	inserts_begin(&inserts, 10);
	late = inserts_take(&inserts);
	while (!inserts_crowded(&inserts)) {
		number = inserts_take(&inserts);
		ASSERT_LT(number - late, INSERTS_WINDOW);
		inserts_done(&inserts, number);
	}
	EXPECT_EQ(late - 1, inserts_last(&inserts));
	inserts_done(&inserts, late);
	EXPECT_EQ(number, inserts_last(&inserts));
	EXPECT_FALSE(inserts_crowded(&inserts));
}

TEST(a_field_belongs_to_its_record_and_place)
{
	static const size_t lens[] = { 1, 7, 8, 9, 100, 1000 };
	char data[1000], other[1000];
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		len = lens[i];
		record_fill("user17", 6, 3, 5, data, len);
		EXPECT_TRUE(record_right("user17", 6, 3, data, len));
		record_fill("user17", 6, 3, 6, other, len);
		EXPECT_TRUE(record_right("user17", 6, 3, other, len));
		/* Two writes differ, where there is room for the difference. */
		EXPECT_EQ(len < 8, !memcmp(data, other, len));
		if (len < 8)
			continue;
		EXPECT_FALSE(record_right("user18", 6, 3, data, len));
		EXPECT_FALSE(record_right("user17", 6, 4, data, len));
		EXPECT_FALSE(record_right("user170", 7, 3, data, len));
		data[len - 1] ^= 1;
		EXPECT_FALSE(record_right("user17", 6, 3, data, len));
	}
}

TEST(keys_of_a_size_are_never_the_same)
{
	struct shape shape = { .records = 10000, .fields = 1, .key_size = 8 };
	static uint8_t seen[10000];
	char key[KVTREE_KEY_MAX + 1];
	uint64_t i;

	for (i = 0; i < shape.records; i++) {
		ASSERT_EQ(8, record_key(&shape, i, key));
		key[8] = '\0';
		ASSERT_EQ(0, strncmp(key, "user", 4));
		ASSERT_EQ(0, seen[atoi(key + 4)]++);
	}
}

TEST(zeta_is_that_of_ycsb)
{
	struct zipf zipf, grown;

	/* As YCSB's source has it, which added up 10^10 terms. */
	zipf_init(&zipf, 10000000000ull, 0.99);
	EXPECT_LT(fabs(zipf.zeta - 26.46902820178302), CLOSE);
	/* By growing step by step and all at once. */
	zipf_init(&grown, 90, 0.99);
	zipf_grow(&grown, 95);
	zipf_grow(&grown, 150);
	zipf_grow(&grown, 5000);
	zipf_init(&zipf, 5000, 0.99);
	EXPECT_LT(fabs(zipf.zeta - grown.zeta), CLOSE);
	EXPECT_LT(fabs(zipf.eta - grown.eta), CLOSE);
}

TEST_HARNESS_MAIN
