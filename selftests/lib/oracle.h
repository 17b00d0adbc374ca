/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of a durable store on disks that may fail, in rounds.  The next attach finds every
 * acknowledged change; of the others it finds, in the order in which they were tried, a prefix
 * or none.  Every caller is told.
 *
 *	o.disk[0] = ...;		disks that may be formatted
 *	o.nr = 1;
 *	kvt_oracle_begin(&o);
 *	(let something fail)
 *	kvt_oracle_run(&o, &out);
 *	(let nothing fail)
 *	KVT_CHECK(kvt_outcome_told(&out));
 *	kvt_oracle_judge(&o);
 *	kvt_oracle_end(&o);
 */
#ifndef KVT_TEST_ORACLE_H
#define KVT_TEST_ORACLE_H

#include "durable.h"

#define KVT_ORACLE_DISKS	2

/* Keys 0..KVT_ORACLE_KEYS-1 get the round's number, in this order. */
#define KVT_ORACLE_KEYS	24

/* The disks, and what is known of their contents. */
struct kvt_oracle {
	struct kvt_disk disk[KVT_ORACLE_DISKS];
	int nr;				/* of disks */
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	__u64 round;
	/* Keys below have the round's number for sure; from tried on, they do not. */
	int acked;
	int tried;
	/* Before the round all keys had this number. */
	__u64 before;
};

/* The results of a round. */
struct kvt_outcome {
	int attached;
	int changed;
	int detached;
	__u64 error;	/* log_error, at its end */
};

/* Of disks that exist.  They end the process if they fail. */
void kvt_oracle_begin(struct kvt_oracle *o);
void kvt_oracle_end(struct kvt_oracle *o);

int kvt_oracle_attach(struct kvt_oracle *o);
int kvt_oracle_detach(struct kvt_oracle *o);
int kvt_oracle_put(struct kvt_oracle *o, __u32 key, __u64 value, int flags);
/* The number under a key; 0: there is none. */
__u64 kvt_oracle_get(struct kvt_oracle *o, __u32 key);
/* The changes of a round; the first error. */
int kvt_oracle_change(struct kvt_oracle *o);
/* All of them but the last, which are durable if it returns 0; and the last, which is then, too. */
int kvt_oracle_change_most(struct kvt_oracle *o);
int kvt_oracle_change_last(struct kvt_oracle *o);

/* Attach, change, detach. */
void kvt_oracle_run(struct kvt_oracle *o, struct kvt_outcome *out);
/* Whether somebody was told that something failed, and the store that cannot write says so. */
bool kvt_outcome_told(const struct kvt_outcome *out);
/* Ends the process unless what is there is what has to be; then it is mended. */
void kvt_oracle_judge(struct kvt_oracle *o);

#endif /* KVT_TEST_ORACLE_H */
