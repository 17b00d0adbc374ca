// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Attach a durable store on a file that replaces a disk, and probe the file
 * after detaching the store. Needs root.
 *
 * Shown in: kvtree_store_attach(3), kvtree_store_detach(3),
 * kvtree_checkpoint(3), kvtree_probe(3)
 *
 * Prints:
 *	"ledger": device 1 of 1, 2 records
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A loop device over a new file. */
static void make_device(char *path, size_t size)
{
	FILE *out;

	if (system("truncate -s 256M ledger.img") ||
	    system("kvtree store format --image ledger.img >/dev/null"))
		errx(EXIT_FAILURE, "nothing was formatted");
	out = popen("losetup -f --show ledger.img", "r");
	if (!out || !fgets(path, (int)size, out) || pclose(out))
		errx(EXIT_FAILURE, "no device");
	path[strcspn(path, "\n")] = '\0';
}

static int use(const char *name)
{
	struct kvtree *kv;
	int err;

	err = kvtree_open(name, 0, &kv);
	if (err)
		return err;
	err = kvtree_put(kv, kvtree_str("debit"), kvtree_str("100"), 0,
			 NULL);
	if (!err)
		err = kvtree_put(kv, kvtree_str("credit"),
				 kvtree_str("100"), 0, NULL);
	if (!err)
		err = kvtree_checkpoint(kv);
	kvtree_close(kv);
	return err;
}

int main(void)
{
	const struct kvtree_store_create store = {
		.name = "ledger",
		.mode = 0600,
	};
	struct kvtree_store_attach args = {
		.store = (uintptr_t)&store,
		.store_size = sizeof(store),
		.nr_devices = 1,
	};
	char path[64], remove[128];
	struct kvtree_device device;
	uint64_t paths[1];
	struct kvtree *any;
	int err;

	make_device(path, sizeof(path));
	paths[0] = (uintptr_t)path;
	args.devices = (uintptr_t)paths;

	err = kvtree_open(NULL, KVTREE_OPEN_READ, &any);
	if (!err)
		err = kvtree_store_attach(any, &args, sizeof(args));
	if (!err)
		err = use(store.name);
	if (!err)
		err = kvtree_store_detach(any, store.name);
	if (!err)
		err = kvtree_probe(path, &device, sizeof(device));
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("\"%s\": device %u of %u, %llu records\n", device.label,
	       device.index + 1, device.nr_devices,
	       (unsigned long long)device.checkpoint_records);
	kvtree_close(any);

	snprintf(remove, sizeof(remove),
		 "losetup --detach %s; rm ledger.img", path);
	return system(remove);
}
