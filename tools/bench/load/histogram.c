// SPDX-License-Identifier: GPL-2.0
/*
 * Histograms of durations.
 *
 * Every octave, from 2^k to 2^(k+1) ns, is divided into 2^HISTOGRAM_BITS buckets of the same
 * width: the error is at most 0.4 % for every duration.  Minimum, maximum and mean are exact.  A
 * histogram has no pointers and may be in memory shared by processes.
 *
 * HdrHistogram_c counts in the same way.  It is not used because neither Debian 12 nor Debian 13
 * packages it, and with a fallback for machines without it the same durations would have other
 * percentiles.
 */
#include <math.h>

#include "bench_load.h"

#define SUB	(1u << HISTOGRAM_BITS)

static size_t bucket_of(uint64_t ns)
{
	unsigned int shift;
	size_t i;

	if (ns < SUB)
		return ns;
	shift = 63 - HISTOGRAM_BITS - (unsigned int)__builtin_clzll(ns);
	i = ((size_t)shift << HISTOGRAM_BITS) + (ns >> shift);
	return i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1;
}

/* The greatest duration that belongs to a bucket. */
static uint64_t bucket_end(size_t i)
{
	unsigned int shift;

	if (i < 2 * SUB)
		return i;
	shift = (unsigned int)(i >> HISTOGRAM_BITS) - 1;
	return ((i - ((size_t)shift << HISTOGRAM_BITS) + 1) << shift) - 1;
}

/**
 * histogram_add() - count a duration
 * @h: the histogram, all zero at first
 * @ns: the duration
 */
void histogram_add(struct histogram *h, uint64_t ns)
{
	if (!h->count || ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
	h->count++;
	h->sum += ns;
	h->bucket[bucket_of(ns)]++;
}

/**
 * histogram_merge() - add one histogram to another
 * @to: the sum
 * @from: the histogram to add
 */
void histogram_merge(struct histogram *to, const struct histogram *from)
{
	size_t i;

	if (!from->count)
		return;
	if (!to->count || from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	to->count += from->count;
	to->sum += from->sum;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

/**
 * histogram_percentile() - the duration that a share of all durations does not exceed
 * @h: the histogram
 * @percent: the share, 0..100
 *
 * Return: the end of its bucket, at most the maximum; 0 if
 * nothing was counted
 */
uint64_t histogram_percentile(const struct histogram *h, double percent)
{
	/* A rounding error must not affect the 99.99 % percentile of 10000 durations. */
	uint64_t want = (uint64_t)ceil((double)h->count * percent / 100 - 0.000001);
	uint64_t seen = 0, end;
	size_t i;

	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen && seen >= want)
			break;
	}
	if (i >= HISTOGRAM_BUCKETS - 1)
		return h->max;
	end = bucket_end(i);
	return end < h->max ? end : h->max;
}

/**
 * histogram_mean() - the mean of all durations
 * @h: the histogram
 *
 * Return: ns, 0 if nothing was counted
 */
double histogram_mean(const struct histogram *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0;
}
