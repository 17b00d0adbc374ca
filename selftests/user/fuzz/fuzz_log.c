// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer: bytes become changes of the structures on the disks of stores, with
 * correct checksums, and a recovery reads the result: see selftests/format/mutate.h.
 * The stores are the golden images, in the folder KVT_GOLDEN of the environment, and
 * one with ranges.
 */
#include "../../../selftests/format/damage.h"
#include "../../../selftests/format/mutate.h"
#include "../../../selftests/format/ranges.h"

#define SUBJECTS	3

static struct fmt_subject subjects[SUBJECTS];

static void open_subject(struct fmt_subject *subject, const char *folder,
			 const char *const *names, u32 nr)
{
	char path[FMT_DISKS][4096], *paths[FMT_DISKS];
	u32 i;

	for (i = 0; i < nr; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", folder, names[i]);
		paths[i] = path[i];
	}
	fmt_subject_open(subject, paths, nr);
}

static void make_subject(struct fmt_subject *subject)
{
	struct fmt_state want = { 0 };
	struct fmt_disks disks;

	fmt_ranges_find(&disks, 2, 1, &want);
	fmt_subject_take(subject, &disks);
	fmt_state_free(&want);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const one[] = { "one.img" }, *const two[] = { "two-1.img", "two-2.img" };
	const char *folder = getenv("KVT_GOLDEN");

	(void)argc;
	(void)argv;
	if (!folder)
		fmt_die("KVT_GOLDEN is not set");
	open_subject(&subjects[0], folder, one, 1);
	open_subject(&subjects[1], folder, two, 2);
	make_subject(&subjects[2]);
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fmt_subject *s;
	struct fmt_bytes bytes;

	if (!size)
		return 0;
	s = &subjects[data[0] % SUBJECTS];
	bytes.at = data + 1;
	bytes.end = data + size;
	fmt_mutate(&s->map, &s->disks, &bytes);
	s->disks.until = 1 + data[0] / SUBJECTS;
	fmt_recover(&s->disks, &s->now, 0, false, NULL);
	s->disks.until = 0;
	if (!s->now.error && !fmt_found_sane(&s->now.found))
		fmt_die("numbers that come to their end, before that");
	fmt_recover(&s->disks, &s->now, 0, false, NULL);
	fmt_disks_restore(&s->disks);
	if (!s->now.error && !fmt_found_sane(&s->now.found))
		fmt_die("numbers that come to their end");
	if (s->now.error && !s->now.text[0])
		fmt_die("error %d, and nobody says why", -s->now.error);
	return 0;
}
