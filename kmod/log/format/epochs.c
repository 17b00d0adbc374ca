// SPDX-License-Identifier: GPL-2.0
/*
 * Going through the epochs of a life, on all devices at the same time.
 *
 * A device has trailers only of epochs in which it takes part, and each trailer says which other
 * devices take part in its epoch.  So an epoch is complete if some device has its trailer, and all
 * devices have it that this one names.  There is no epoch without a trailer.
 *
 * On each device, the walk is one trailer ahead if that belongs to a later epoch.  What is ahead
 * may be damaged, or may not be readable: this matters only once an epoch needs it.
 */
#include "format.h"

/**
 * kvt_log_epochs_init() - prepare to go through epochs
 * @ep: filled; kvt_log_epochs_exit() must follow, whatever is returned
 * @set: the devices
 * @known: the epochs that will be asked for exist: if one does not, that is damage
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_log_epochs_init(struct kvt_log_epochs *ep, struct kvt_log_set *set, bool known)
{
	int err = 0;
	u32 dev;

	memset(ep, 0, sizeof(*ep));
	ep->set = set;
	ep->known = known;
	for (dev = 0; !err && dev < set->nr_devs; dev++) {
		err = kvt_log_walk_init(&ep->walk[dev], set, dev);
		ep->walk[dev].exact = known;
	}
	return err;
}

/**
 * kvt_log_epochs_exit() - free the memory of kvt_log_epochs_init()
 * @ep: the epochs
 */
void kvt_log_epochs_exit(struct kvt_log_epochs *ep)
{
	u32 dev;

	for (dev = 0; dev < ep->set->nr_devs; dev++)
		kvt_log_walk_exit(&ep->walk[dev]);
}

/**
 * kvt_log_epochs_life() - go to the beginning of a life
 * @ep: the epochs; the next one will be the first of the life
 * @life: index of the life in the superblock
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED: a position in the superblocks is impossible.
 */
int kvt_log_epochs_life(struct kvt_log_epochs *ep, u32 life)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < ep->set->nr_devs; dev++)
		verdict = kvt_log_walk_life(&ep->walk[dev], life);
	ep->epoch = le64_to_cpu(kvt_log_set_life(ep->set, 0, life)->first_epoch) - 1;
	ep->devices = 0;
	ep->begun = false;
	ep->behind = kvt_log_set_all(ep->set);
	return verdict;
}

/*
 * Go to the next trailer on devices.  The last epoch's lease may never have taken effect.  Using it
 * does no harm, as leases only grow.
 */
static void epochs_advance(struct kvt_log_epochs *ep, u32 devices)
{
	u64 lease;
	u32 dev;

	for (dev = 0; dev < ep->set->nr_devs; dev++) {
		if (!(devices >> dev & 1))
			continue;
		ep->verdict[dev] = kvt_log_walk_next(&ep->walk[dev]);
		if (ep->verdict[dev])
			continue;
		lease = le64_to_cpu(ep->walk[dev].trailer->version_lease);
		ep->version_lease = max(ep->version_lease, lease);
	}
}

/*
 * Which devices have an epoch's trailer, and which should have it.  Returns KVT_LOG_DAMAGED if the
 * trailers do not agree on that.
 */
static int epochs_look(const struct kvt_log_epochs *ep, u64 epoch, u32 *having, u32 *named)
{
	u32 devices, dev;

	*having = 0;
	*named = 0;
	for (dev = 0; dev < ep->set->nr_devs; dev++) {
		if (ep->verdict[dev] || le64_to_cpu(ep->walk[dev].trailer->epoch) != epoch)
			continue;
		devices = kvt_log_walk_devices(&ep->walk[dev]);
		if (*named && devices != *named) {
			kvt_log_say(ep->set, "the commit records of epoch %llu do not agree",
				    (unsigned long long)epoch);
			return KVT_LOG_DAMAGED;
		}
		*having |= 1U << dev;
		*named = devices;
	}
	return KVT_LOG_SOUND;
}

/* The latest epoch of which a device has a trailer ahead, or a part of one; 0: there is none. */
static u64 epochs_latest(const struct kvt_log_epochs *ep)
{
	const struct kvt_log_walk *walk;
	u64 latest = 0;
	u32 dev;

	for (dev = 0; dev < ep->set->nr_devs; dev++) {
		walk = &ep->walk[dev];
		if (ep->verdict[dev] == KVT_LOG_SOUND)
			latest = max(latest, le64_to_cpu(walk->trailer->epoch));
		else
			latest = max(latest, walk->begun);
	}
	return latest;
}

/* Report which devices have lost the trailers of an epoch that was durable; 0: not known which. */
static void epochs_lost(const struct kvt_log_epochs *ep, u64 epoch, u32 devices)
{
	u64 latest = epochs_latest(ep);
	u32 dev;

	if (ep->set->nr_devs == 1)
		devices = 1;
	for (dev = 0; dev < ep->set->nr_devs; dev++)
		if (devices >> dev & 1)
			kvt_log_say(ep->set, "device %u has lost the commit record of epoch %llu",
				    dev + 1, (unsigned long long)epoch);
	if (!devices)
		kvt_log_say(ep->set, "a device has lost the commit record of epoch %llu",
			    (unsigned long long)epoch);
	if (latest > epoch)
		kvt_log_say(ep->set, "epoch %llu was durable: epoch %llu was begun after it",
			    (unsigned long long)epoch, (unsigned long long)latest);
}

/* Of these devices, report the first whose next trailer is damaged or cannot be read. */
static int epochs_verdict(const struct kvt_log_epochs *ep, u64 epoch, u32 devices)
{
	u32 dev;

	for (dev = 0; dev < ep->set->nr_devs; dev++) {
		if (!(devices >> dev & 1) || ep->verdict[dev] == KVT_LOG_SOUND ||
		    ep->verdict[dev] == KVT_LOG_END)
			continue;
		kvt_log_walk_say(&ep->walk[dev], epoch);
		return ep->verdict[dev];
	}
	return KVT_LOG_SOUND;
}

/*
 * Only @having have an epoch's trailer, and not all of @named, or nobody has it.  Returns
 * KVT_LOG_END if the life ends before the epoch, or an error, which was reported.
 */
static int epochs_end(struct kvt_log_epochs *ep, u64 epoch, u32 having, u32 named)
{
	u32 missing = named & ~having, dev;
	int verdict;

	verdict = epochs_verdict(ep, epoch, named ? missing : ~0U);
	/* The life ends here only if no device has anything later. */
	if (!verdict && !ep->known) {
		epochs_advance(ep, having);
		verdict = epochs_verdict(ep, epoch, ~0U);
	}
	if (verdict)
		return verdict;
	if (ep->known || epochs_latest(ep) > epoch) {
		epochs_lost(ep, epoch, missing);
		return KVT_LOG_DAMAGED;
	}
	ep->begun = having != 0;
	for (dev = 0; dev < ep->set->nr_devs; dev++) {
		if (ep->walk[dev].begun != epoch)
			continue;
		ep->begun = true;
		kvt_log_walk_say(&ep->walk[dev], epoch);
	}
	return KVT_LOG_END;
}

/**
 * kvt_log_epochs_next() - go to the next epoch
 * @ep: of kvt_log_epochs_life()
 *
 * Return: KVT_LOG_SOUND, and the walks of @ep->devices have its trailers; KVT_LOG_END: there is
 * none, and @ep->begun says whether there is a part of it; KVT_LOG_DAMAGED or -EIO, which was
 * reported; or another errno.
 */
int kvt_log_epochs_next(struct kvt_log_epochs *ep)
{
	u64 epoch = ep->epoch + 1;
	u32 having, named;
	int verdict;

	epochs_advance(ep, ep->behind);
	ep->behind = 0;
	verdict = epochs_look(ep, epoch, &having, &named);
	if (!verdict && (!having || having != named))
		verdict = epochs_end(ep, epoch, having, named);
	if (verdict)
		return verdict;
	ep->epoch = epoch;
	ep->devices = having;
	ep->behind = having;
	return KVT_LOG_SOUND;
}
