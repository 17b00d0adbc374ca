// SPDX-License-Identifier: GPL-2.0
/* Base pages: searching, reading and building. */

#include "tree.h"

/* Compare a wanted key with the prefix of a page: 0 if it begins with it. */
static int bw_prefix_cmp(const struct bw_page *page, const struct bw_want *want)
{
	u32 len = page->prefix_len;
	u64 mask = len < BW_SLICE ? ~(~0ull >> (8 * len)) : ~0ull;
	int diff;

	if ((want->head & mask) != page->prefix_head)
		return bw_order(want->head & mask, page->prefix_head);
	if (min(len, want->len) > BW_SLICE) {
		diff = memcmp(want->tail, bw_page_prefix(page) + BW_SLICE,
			      min(len, want->len) - BW_SLICE);
		if (diff)
			return diff;
	}
	return want->len < len ? -1 : 0;
}

/* Compare the key with an entry that has the same prefix and slice. */
static int bw_tail_cmp(const struct bw_page *page, unsigned int i, const struct bw_want *want)
{
	u32 at = page->prefix_len + BW_SLICE;
	u32 len = bw_page_len(page, i);
	u32 common = min(len, want->len);
	int diff;

	if (common > at) {
		diff = memcmp(want->tail + page->prefix_len, bw_page_tail(page, i), common - at);
		if (diff)
			return diff;
	}
	return (int)want->len - (int)len;
}

/* How many full groups have only lower slices. */
static __always_inline unsigned int bw_sample_lower(const struct bw_page *page, u64 slice)
{
	unsigned int half, n = page->rec.nr / BW_GROUP;
	const u64 *samples = bw_page_sample(page), *base = samples;

	if (!n)
		return 0;
	while (n > 1) {
		half = n / 2;
		base += (base[half - 1] < slice) * half;
		n -= half;
	}
	return base - samples + (*base < slice);
}

/* The first entry with a slice of at least @slice, or the number of entries. */
static __always_inline unsigned int bw_slice_lower(const struct bw_page *page, unsigned int group,
						   u64 slice)
{
	const u64 *s = bw_page_slice(page) + group * BW_GROUP;

	BUILD_BUG_ON(BW_GROUP != 8);
	if (group * BW_GROUP == page->rec.nr)
		return page->rec.nr;
	return group * BW_GROUP + (s[0] < slice) + (s[1] < slice) + (s[2] < slice) +
	       (s[3] < slice) + (s[4] < slice) + (s[5] < slice) + (s[6] < slice) +
	       (s[7] < slice);
}

/**
 * bw_page_group() - guess a key's group without waiting for more memory
 * @page: a base page
 * @want: the key
 *
 * Return: a group of entries, or the one after the last; a guess.
 */
unsigned int bw_page_group(const struct bw_page *page, const struct bw_want *want)
{
	return bw_sample_lower(page, bw_want_slice(want, page->prefix_len));
}

/**
 * bw_page_lower_in() - find a key's place, given its group
 * @page: a base page
 * @group: from bw_page_group()
 * @want: the key
 * @low: the first entry to compare
 * @high: the first entry after those
 * @same: set to whether it is the key of the entry
 *
 * Return: the first entry with a key not less than @want, or @high.
 */
unsigned int bw_page_lower_in(const struct bw_page *page, unsigned int group,
			      const struct bw_want *want, unsigned int low, unsigned int high,
			      bool *same)
{
	const u64 *slices = bw_page_slice(page);
	unsigned int i, mid, end = high;
	u64 slice;
	int diff;

	*same = false;
	if (page->prefix_len) {
		diff = bw_prefix_cmp(page, want);
		if (diff)
			return diff < 0 ? low : high;
	}
	slice = bw_want_slice(want, page->prefix_len);
	i = min(max(bw_slice_lower(page, group, slice), low), high);
	if (i == high || slices[i] != slice)
		return i;
	diff = bw_tail_cmp(page, i, want);
	*same = !diff;
	if (diff <= 0)
		return i;
	/* Usually only one entry has that slice, but all may have it. */
	i++;
	while (i < end) {
		mid = i + (end - i) / 2;
		diff = slices[mid] == slice ? bw_tail_cmp(page, mid, want) : -1;
		if (!diff) {
			*same = true;
			return mid;
		}
		if (diff > 0)
			i = mid + 1;
		else
			end = mid;
	}
	return i;
}

/**
 * bw_page_lower() - find a key's place
 * @page: a base page
 * @want: the key
 * @low: the first entry to compare
 * @high: the first entry after those
 * @same: set to whether it is the key of the entry
 *
 * Return: the first entry with a key not less than @want, or @high.
 */
unsigned int bw_page_lower(const struct bw_page *page, const struct bw_want *want,
			   unsigned int low, unsigned int high, bool *same)
{
	return bw_page_lower_in(page, bw_page_group(page, want), want, low, high, same);
}

/**
 * bw_page_ent() - read an entry
 * @page: a base page
 * @i: which
 * @ent: to be filled
 */
void bw_page_ent(const struct bw_page *page, unsigned int i, struct bw_ent *ent)
{
	*ent = (struct bw_ent) {
		.prefix = bw_page_prefix(page),
		.prefix_len = page->prefix_len,
		.slice = bw_page_slice(page)[i],
		.tail = bw_page_tail(page, i),
		.len = bw_page_len(page, i),
		.load = bw_page_load(page, i),
		.marked = page->rec.has_mark && page->marked == i,
	};
}

/**
 * bw_ent_copy() - copy bytes of an entry's key
 * @ent: the entry
 * @from: the first
 * @to: after the last, at most the key's length
 * @out: destination
 */
void bw_ent_copy(const struct bw_ent *ent, u32 from, u32 to, u8 *out)
{
	u32 at = ent->prefix_len, n;
	u8 slice[BW_SLICE];

	if (from < at) {
		n = min(to, at) - from;
		memcpy(out, ent->prefix + from, n);
		out += n;
		from += n;
	}
	if (from < to && from < at + BW_SLICE) {
		n = min(to, at + BW_SLICE) - from;
		put_unaligned_be64(ent->slice, slice);
		memcpy(out, slice + (from - at), n);
		out += n;
		from += n;
	}
	if (from < to)
		memcpy(out, ent->tail + (from - at - BW_SLICE), to - from);
}

static u8 bw_ent_byte(const struct bw_ent *ent, u32 i)
{
	u32 at = ent->prefix_len;

	if (i < at)
		return ent->prefix[i];
	if (i < at + BW_SLICE)
		return ent->slice >> (56 - 8 * (i - at));
	return ent->tail[i - at - BW_SLICE];
}

static u64 bw_ent_slice(const struct bw_ent *ent, u32 at)
{
	u8 slice[BW_SLICE] = {};

	if (at == ent->prefix_len)
		return ent->slice;
	if (at < ent->len)
		bw_ent_copy(ent, at, min_t(u32, ent->len, at + BW_SLICE), slice);
	return get_unaligned_be64(slice);
}

/**
 * bw_ent_cmp() - compare a key with that of an entry
 * @want: the key
 * @ent: the entry
 *
 * Return: less than, equal to or greater than 0.
 */
int bw_ent_cmp(const struct bw_want *want, const struct bw_ent *ent)
{
	u32 i, common = min_t(u32, want->len, ent->len);

	for (i = 0; i < common; i++) {
		u8 a = i < BW_SLICE ? want->head >> (56 - 8 * i) : want->tail[i - BW_SLICE];
		u8 b = bw_ent_byte(ent, i);

		if (a != b)
			return a < b ? -1 : 1;
	}
	return (int)want->len - (int)ent->len;
}

/**
 * bw_ent_common() - how many bytes two keys have in common
 * @a: an entry
 * @b: another
 * @from: how many are known to be equal
 *
 * Return: bytes, at least @from.
 */
u32 bw_ent_common(const struct bw_ent *a, const struct bw_ent *b, u32 from)
{
	u32 at, len = min(a->len, b->len);
	u64 diff;

	for (at = from; at < len; at += BW_SLICE) {
		diff = bw_ent_slice(a, at) ^ bw_ent_slice(b, at);
		if (diff)
			return min_t(u32, len, at + __builtin_clzll(diff) / 8);
	}
	return len;
}

/**
 * bw_want_common() - how many bytes two keys have in common
 * @a: a key
 * @b: another
 *
 * Return: bytes.
 */
u32 bw_want_common(const struct bw_want *a, const struct bw_want *b)
{
	u32 at = BW_SLICE, len = min(a->len, b->len);
	u64 diff = a->head ^ b->head;

	if (!diff && len > BW_SLICE) {
		/* Compare most of them at once: long keys may have much in common. */
		while (at + BW_SLICE <= len &&
		       get_unaligned((const u64 *)(a->tail + at - BW_SLICE)) ==
		       get_unaligned((const u64 *)(b->tail + at - BW_SLICE)))
			at += BW_SLICE;
		diff = bw_want_slice(a, at) ^ bw_want_slice(b, at);
		at += BW_SLICE;
	}
	return diff ? min_t(u32, len, at - BW_SLICE + __builtin_clzll(diff) / 8) : len;
}

/**
 * bw_ent_key() - keep the beginning of an entry's key
 * @ent: the entry
 * @len: how many bytes
 * @key: has room for them
 */
void bw_ent_key(const struct bw_ent *ent, u32 len, struct bw_key *key)
{
	u8 head[BW_SLICE] = {};

	bw_ent_copy(ent, 0, min(len, BW_SLICE), head);
	key->head = get_unaligned_be64(head);
	key->len = len;
	if (len > BW_SLICE)
		bw_ent_copy(ent, BW_SLICE, len, key->tail);
}

static u32 bw_tail_len(u32 len, u32 prefix_len)
{
	u32 at = prefix_len + BW_SLICE;

	return len > at ? len - at : 0;
}

/**
 * bw_ent_at() - an entry of a page
 * @top: the page's newest record
 * @nr: its number, below @top->nr
 * @ent: to be filled
 */
void bw_ent_at(const struct bw_rec *top, unsigned int nr, struct bw_ent *ent)
{
	struct bw_walk walk;

	bw_walk_init(&walk, top);
	bw_walk_to(&walk, nr);
	if (WARN_ON_ONCE(!bw_walk_next(&walk, ent)))
		*ent = (struct bw_ent) {};
}

/**
 * bw_bytes_with() - how much of a base page a page's entries would take beside others
 * @top: the page's newest record
 * @common: how many bytes all keys of the base page have in common
 *
 * Return: bytes.  If keys differ in length, this may be too many.
 */
u32 bw_bytes_with(const struct bw_rec *top, u32 common)
{
	const struct bw_page *base = top->base;
	u32 longer;

	if (base->prefix_len <= common)
		return top->bytes;
	if (base->key_len == BW_LENS)
		longer = base->prefix_len - common;
	else
		longer = bw_tail_len(base->key_len, common) -
			 bw_tail_len(base->key_len, base->prefix_len);
	if (longer && !base->tails)
		longer += sizeof(u32);
	return top->bytes + top->nr * longer;
}

/* Round an offset up to a cache line. */
static u32 bw_line(u32 off)
{
	return ALIGN(off + BW_MEM_HEAD, BW_LINE) - BW_MEM_HEAD;
}

/* Lay out the page. */
static void bw_sum_lay(struct bw_sum *sum, const struct bw_frame *frame)
{
	u32 nr = sum->to - sum->from, off = offsetof(struct bw_page, data);
	u32 loads = ALIGN(nr * (frame->level ? sizeof(u32) : sizeof(u64)), 8);
	u32 lens = sum->key_len == BW_LENS ? ALIGN(nr * sizeof(u16), 8) : 0;
	u32 tails = sum->tails ? nr * sizeof(u32) + sum->tails : 0;

	sum->bytes = nr * sizeof(u64) + loads + lens + tails;
	sum->off_low = off + (frame->high ? bw_key_size(frame->high->len) : 0);
	sum->off_prefix = sum->off_low + bw_key_size(frame->low->len);
	sum->off_sample = sum->off_prefix + ALIGN(sum->prefix_len, 8);
	sum->off_slice = bw_line(sum->off_sample + nr / BW_GROUP * sizeof(u64));
	sum->off_load = sum->off_slice + ALIGN(nr, BW_GROUP) * sizeof(u64);
	sum->off_len = sum->off_load + loads;
	sum->off_tail = sum->off_len + lens;
	sum->size = bw_line(sum->off_tail + tails);
}

/**
 * bw_sum() - compute the size of a base page of some entries
 * @walk: the entries
 * @frame: the rest of the page's content
 * @from: the first
 * @to: after the last, at most their number
 * @sum: to be filled
 */
void bw_sum(struct bw_walk *walk, const struct bw_frame *frame, unsigned int from,
	    unsigned int to, struct bw_sum *sum)
{
	unsigned int i, n, nr = to - from;
	struct bw_ent ent;

	memset(sum, 0, sizeof(*sum));
	sum->from = from;
	sum->to = to;
	bw_walk_to(walk, from);
	for (i = 0; i < nr; i += n) {
		/* Except the first and the last, all that are known to have keys of this length. */
		n = i ? bw_walk_skip(walk, sum->key_len, nr - i - 1) : 0;
		if (n)
			continue;
		n = 1;
		if (WARN_ON_ONCE(!bw_walk_next(walk, &ent)))
			break;
		if (!i) {
			sum->first = ent;
			sum->key_len = ent.len;
		} else if (ent.len != sum->key_len) {
			sum->key_len = BW_LENS;
		}
	}
	if (nr > 1)
		sum->prefix_len = bw_ent_common(&sum->first, &ent, 0);
	if (sum->key_len != BW_LENS) {
		sum->tails = nr * bw_tail_len(sum->key_len, sum->prefix_len);
	} else {
		bw_walk_to(walk, from);
		for (i = 0; i < nr; i++) {
			bw_walk_next(walk, &ent);
			sum->tails += bw_tail_len(ent.len, sum->prefix_len);
		}
	}
	bw_sum_lay(sum, frame);
}

/**
 * bw_sum_pair() - compute the size of a base page of two entries
 * @ent: the entries
 * @frame: the rest of the page's content
 * @sum: to be filled
 */
void bw_sum_pair(const struct bw_ent ent[2], const struct bw_frame *frame, struct bw_sum *sum)
{
	*sum = (struct bw_sum) {
		.to = 2,
		.first = ent[0],
		.key_len = ent[0].len == ent[1].len ? ent[0].len : BW_LENS,
		.prefix_len = bw_ent_common(&ent[0], &ent[1], 0),
	};
	sum->tails = bw_tail_len(ent[0].len, sum->prefix_len) +
		     bw_tail_len(ent[1].len, sum->prefix_len);
	bw_sum_lay(sum, frame);
}

static struct bw_key *bw_key_copy(void *to, const struct bw_key *key)
{
	struct bw_want want = bw_want_key(key);

	bw_key_set(to, &want);
	return to;
}

/* Fill in everything but the entries. */
static void bw_page_lay(struct bw_page *page, const struct bw_sum *sum,
			const struct bw_frame *frame)
{
	page->rec = (struct bw_rec) {
		.kind = BW_BASE,
		.level = frame->level,
		.own = true,
		.nr = sum->to - sum->from,
		.right = frame->right,
		.bytes = sum->bytes,
		.base = page,
	};
	page->prefix_len = sum->prefix_len;
	page->key_len = sum->key_len;
	page->tails = !!sum->tails;
	page->marked = 0;
	if (frame->high)
		page->rec.high = bw_key_copy(page->data, frame->high);
	page->off_low = sum->off_low;
	bw_key_copy((u8 *)page + page->off_low, frame->low);
	page->off_prefix = sum->off_prefix;
	bw_ent_copy(&sum->first, 0, sum->prefix_len, (u8 *)page + page->off_prefix);
	page->prefix_head = bw_head((u8 *)page + page->off_prefix, sum->prefix_len);
	page->off_sample = sum->off_sample;
	page->off_slice = sum->off_slice;
	page->off_load = sum->off_load;
	page->off_len = sum->off_len;
	page->off_tail = sum->off_tail;
	page->end = sum->size;
	if (!frame->level)
		atomic_set(bw_page_taken(page), page->end);
}

/* Set the samples, and fill up the last group. */
static void bw_page_sample_groups(struct bw_page *page)
{
	u64 *samples = (u64 *)((u8 *)page + page->off_sample);
	u64 *slices = (u64 *)((u8 *)page + page->off_slice);
	unsigned int i, nr = page->rec.nr;

	for (i = 0; i < nr / BW_GROUP; i++)
		samples[i] = slices[(i + 1) * BW_GROUP - 1];
	for (i = nr; i % BW_GROUP; i++)
		slices[i] = ~0ull;
}

static void bw_page_put(struct bw_page *page, unsigned int i, const struct bw_ent *ent, u8 **tail)
{
	u32 n = bw_tail_len(ent->len, page->prefix_len);

	((u64 *)((u8 *)page + page->off_slice))[i] = bw_ent_slice(ent, page->prefix_len);
	if (page->rec.level)
		((u32 *)((u8 *)page + page->off_load))[i] = ent->load;
	else
		((unsigned long *)((u8 *)page + page->off_load))[i] = ent->load;
	if (page->key_len == BW_LENS)
		((u16 *)((u8 *)page + page->off_len))[i] = ent->len;
	if (page->tails) {
		((u32 *)((u8 *)page + page->off_tail))[i] = *tail - (u8 *)page;
		if (n)
			bw_ent_copy(ent, ent->len - n, ent->len, *tail);
		*tail += n;
	}
}

/* Where the first tail of a page belongs. */
static u8 *bw_page_first_tail(struct bw_page *page)
{
	return (u8 *)page + page->off_tail + (page->tails ? page->rec.nr * sizeof(u32) : 0);
}

/* Copy the next entries of the walk's base, if both pages store them alike.  Returns how many. */
static unsigned int bw_page_put_run(struct bw_page *page, unsigned int i, struct bw_walk *walk)
{
	u32 size = page->rec.level ? sizeof(u32) : sizeof(unsigned long);
	const struct bw_page *base = bw_walk_base(walk);
	unsigned int j, n;

	if (page->tails || base->key_len == BW_LENS || base->prefix_len != page->prefix_len ||
	    base->rec.has_mark)
		return 0;
	n = bw_walk_run(walk, page->rec.nr - i);
	memcpy((u64 *)((u8 *)page + page->off_slice) + i, bw_page_slice(base) + walk->i,
	       n * sizeof(u64));
	memcpy((u8 *)page + page->off_load + i * size,
	       bw_page_at(base, base->off_load + walk->i * size), n * size);
	if (page->key_len == BW_LENS)
		for (j = i; j < i + n; j++)
			((u16 *)((u8 *)page + page->off_len))[j] = base->key_len;
	walk->i += n;
	return n;
}

/**
 * bw_page_fill() - build a base page
 * @obj: memory
 * @size: its bytes, at least @sum->size; the rest is for records
 * @walk: the entries
 * @sum: which of them, from bw_sum() with the same @frame
 * @frame: the rest of the page's content
 *
 * Return: the page.
 */
struct bw_page *bw_page_fill(void *obj, u32 size, struct bw_walk *walk, const struct bw_sum *sum,
			     const struct bw_frame *frame)
{
	unsigned int i, n, nr = sum->to - sum->from;
	struct bw_page *page = obj;
	struct bw_ent ent;
	u8 *tail;

	page->size = size;
	bw_page_lay(page, sum, frame);
	tail = bw_page_first_tail(page);
	bw_walk_to(walk, sum->from);
	for (i = 0; i < nr; i += n) {
		n = frame->mark ? 0 : bw_page_put_run(page, i, walk);
		if (n)
			continue;
		n = 1;
		bw_walk_next(walk, &ent);
		bw_page_put(page, i, &ent, &tail);
		if (ent.marked || (frame->mark && !bw_ent_cmp(frame->mark, &ent))) {
			page->rec.has_mark = true;
			page->marked = i;
		}
	}
	bw_page_sample_groups(page);
	return page;
}

/**
 * bw_page_fill_pair() - build a base page of two entries
 * @obj: memory
 * @size: its bytes, at least @sum->size
 * @ent: the entries
 * @sum: from bw_sum_pair() with the same @ent and @frame
 * @frame: the rest of the page's content
 *
 * Return: the page.
 */
struct bw_page *bw_page_fill_pair(void *obj, u32 size, const struct bw_ent ent[2],
				  const struct bw_sum *sum, const struct bw_frame *frame)
{
	struct bw_page *page = obj;
	u8 *tail;

	page->size = size;
	bw_page_lay(page, sum, frame);
	tail = bw_page_first_tail(page);
	bw_page_put(page, 0, &ent[0], &tail);
	bw_page_put(page, 1, &ent[1], &tail);
	bw_page_sample_groups(page);
	return page;
}

/**
 * bw_page_empty() - build a base page without entries, for all keys
 * @obj: memory
 * @size: its bytes
 * @level: of the page
 *
 * Return: the page.
 */
struct bw_page *bw_page_empty(void *obj, u32 size, u8 level)
{
	static const struct bw_key none;
	const struct bw_frame frame = { .level = level, .low = &none };
	struct bw_sum sum = { .key_len = BW_LENS };
	struct bw_page *page = obj;

	page->size = size;
	bw_sum_lay(&sum, &frame);
	bw_page_lay(page, &sum, &frame);
	return page;
}

/**
 * bw_page_space() - get memory beside a base page, for a record
 * @page: the page, a leaf
 * @size: bytes
 *
 * It is freed with the page.
 *
 * Return: the memory, or NULL: there is not enough left.
 */
void *bw_page_space(struct bw_page *page, u32 size)
{
	atomic_t *taken = bw_page_taken(page);
	u32 end, most = (u8 *)taken - (u8 *)page;

	size = ALIGN(size, 8);
	if (atomic_read(taken) + size > most)
		return NULL;
	end = atomic_add_return(size, taken);
	return end <= most ? (u8 *)page + end - size : NULL;
}

/**
 * bw_page_unspace() - give back what bw_page_space() returned, if it was the last
 * @page: the page
 * @rec: the memory, not published
 * @size: bytes
 */
void bw_page_unspace(struct bw_page *page, void *rec, u32 size)
{
	int at = (u8 *)rec - (u8 *)page;

	atomic_cmpxchg(bw_page_taken(page), at + ALIGN(size, 8), at);
}
