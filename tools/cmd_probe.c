// SPDX-License-Identifier: GPL-2.0
/*
 * probe: show which devices belong to durable stores.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include <blkid/blkid.h>

#include "stores.h"

/* Options without a letter. */
enum { OPT_CONFIG = 256 };

struct probe {
	char **paths;
	int nr;
	bool udev;
	const char *config;
	int found;
};

static error_t parse_probe(int key, char *arg, struct argp_state *state)
{
	struct probe *probe = state->input;

	switch (key) {
	case 'u':
		probe->udev = true;
		return 0;
	case OPT_CONFIG:
		probe->config = arg;
		return 0;
	case ARGP_KEY_ARGS:
		probe->paths = state->argv + state->next;
		probe->nr = state->argc - state->next;
		return 0;
	case ARGP_KEY_END:
		if (probe->udev && probe->nr != 1)
			argp_error(state, "--udev takes one DEVICE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option probe_options[] = {
	{ .name = "udev", .key = 'u',
	  .doc = "Print properties for udev; KVTREE_STORE if it should attach the store now" },
	{ .name = "config", .key = OPT_CONFIG, .arg = "FILE",
	  .doc = "The file with the stores (" STORES_FILE ")" },
	{ 0 }
};

static void print_json(const char *path, const struct kvtree_device *device)
{
	json_t *obj = json_new();
	char uuid[37];

	uuid_text(uuid, device->uuid);
	json_add_bytes(obj, "path", path, strlen(path));
	json_add(obj, "uuid", json_string(uuid));
	json_add_bytes(obj, "label", device->label, strlen(device->label));
	json_add_u64(obj, "device", device->index + 1);
	json_add_u64(obj, "devices", device->nr_devices);
	json_add(obj, "open", json_boolean(device->flags & KVTREE_DEVICE_OPEN));
	json_add_u64(obj, "version", device->version);
	json_add_u64(obj, "bytes", device->bytes);
	json_add_u64(obj, "segment_bytes", device->segment_bytes);
	json_add_u64(obj, "formatted", device->formatted);
	json_add_u64(obj, "checkpoint_records", device->checkpoint_records);
	json_print(obj);
}

static void print_text(const char *path, const struct kvtree_device *device)
{
	char uuid[37];

	uuid_text(uuid, device->uuid);
	printf("%s: UUID=%s, device %u of %u, %" PRIu64 " MiB, ", path, uuid, device->index + 1,
	       device->nr_devices, device->bytes >> 20);
	if (*device->label) {
		putchar('\'');
		put_bytes(stdout, device->label, strlen(device->label));
		printf("'%s\n", device->flags & KVTREE_DEVICE_OPEN ? ", attached or not detached" :
		       "");
	} else {
		puts("never attached");
	}
}

static int show(const char *path, const struct kvtree_device *device, int err, void *arg)
{
	struct probe *probe = arg;

	if (err) {
		warn("%s: %s", path, err == -EBADMSG ? "its superblocks are damaged" :
		     err == -EOPNOTSUPP ? "its format is newer than this program" :
		     kvtree_strerror(err));
		return 0;
	}
	probe->found++;
	if (tool.json)
		print_json(path, device);
	else
		print_text(path, device);
	return 0;
}

/*
 * The name of a store of the file that can be attached, because all its devices exist.  The
 * links to this device are made after udev's call, which passes their names.
 */
static const char *store_to_attach(const struct stores *stores, const struct kvtree_device *device,
				   dev_t rdev)
{
	const char *links = getenv("DEVLINKS");
	size_t i;

	for (i = 0; i < stores->nr; i++) {
		const struct store_line *line = &stores->line[i];

		if (!line->noauto && devices_has(line, device, rdev, links ? links : "") &&
		    devices_complete(line, device))
			return line->store.name;
	}
	return NULL;
}

/* Print values like blkid; encode characters that are not allowed. */
static void print_udev(const char *path, const struct kvtree_device *device,
		       const struct stores *stores)
{
	char uuid[37], label[4 * KVTREE_NAME_MAX + 1];
	struct stat st = { 0 };
	const char *name;

	uuid_text(uuid, device->uuid);
	printf("ID_FS_TYPE=kvtree\nID_FS_USAGE=other\nID_FS_VERSION=%u\n", device->version);
	printf("ID_FS_UUID=%s\nID_FS_UUID_ENC=%s\n", uuid, uuid);
	if (*device->label && !blkid_encode_string(device->label, label, sizeof(label)))
		printf("ID_FS_LABEL_ENC=%s\n", label);
	if (*device->label && !blkid_safe_string(device->label, label, sizeof(label)))
		printf("ID_FS_LABEL=%s\n", label);
	printf("KVTREE_DEVICE=%u\nKVTREE_DEVICES=%u\n", device->index + 1, device->nr_devices);
	if (stat(path, &st) || !S_ISBLK(st.st_mode))
		return;
	name = store_to_attach(stores, device, st.st_rdev);
	if (name)
		printf("KVTREE_STORE=%s\n", name);
}

static int probe_udev(const struct probe *probe)
{
	const char *path = probe->paths[0];
	struct kvtree_device device;
	struct stores stores;

	/* Most devices are not kvtree's: print nothing. */
	if (kvtree_probe(path, &device, sizeof(device)) ||
	    device.flags & KVTREE_DEVICE_DOUBTFUL || devices_foreign(path, &device, NULL))
		return STATUS_NOT;
	stores_read(&stores, probe->config, true);
	print_udev(path, &device, &stores);
	stores_free(&stores);
	return STATUS_OK;
}

int cmd_probe(int argc, char **argv)
{
	const struct argp argp = {
		.options = probe_options,
		.parser = parse_probe,
		.args_doc = "[DEVICE...]",
		.doc = "Show which devices belong to durable stores: all, or those named.\n"
		       "\vPrints a line for each: its store, which of the store's devices it is, and\n"
		       "the name by which it was attached. It needs no module. The exit status is 1\n"
		       "if none belongs to a store.",
		.children = common_options,
	};
	struct probe probe = { .config = STORES_FILE };
	struct kvtree_device device;
	int i, err;

	parse(&argp, argc, argv, &probe);
	if (probe.udev)
		return probe_udev(&probe);
	if (!probe.nr) {
		err = devices_each(show, &probe);
		if (err)
			die("cannot list the devices: %s", strerror(-err));
	}
	for (i = 0; i < probe.nr; i++) {
		err = kvtree_probe(probe.paths[i], &device, sizeof(device));
		show(probe.paths[i], &device, err, &probe);
		if (!err)
			devices_foreign(probe.paths[i], &device, "probe");
	}
	return probe.found ? STATUS_OK : STATUS_NOT;
}
