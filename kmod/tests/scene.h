/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scenes: a small tree, and a change of it that passes given park points.  The
 * change is held at such a point while others read the tree or change it as
 * well.
 *
 * A scene knows whether each of its keys is present, at any state of the change.
 */
#ifndef KVT_TESTS_SCENE_H
#define KVT_TESTS_SCENE_H

#include "lib.h"

#define SCENE_KEYS	320
#define SCENE_KEY_MAX	64

enum scene_state {
	SCENE_ABSENT,
	SCENE_STABLE,
	SCENE_EITHER,		/* the key that the change inserts or removes */
};

struct scene_key {
	u32 id;
	enum scene_state state;
	bool loose;		/* others change it, too */
	bool seen;		/* by the scan under way */
	u64 version;		/* the newest one seen */
	struct kvt_key key;
	u8 data[SCENE_KEY_MAX];
};

enum scene_act {
	SCENE_PUT,
	SCENE_UPDATE,		/* the key exists, and stays */
	SCENE_DEL,
	SCENE_SWEEP,
};

#define SCENE_NONE	U32_MAX

/* The work of a thread that is held without locks. */
enum scene_role {
	SCENE_ROLE_GET,		/* look up keys here and there */
	SCENE_ROLE_SCAN,
	SCENE_ROLE_SCAN_BACK,
	SCENE_ROLE_WRITE,	/* change the leaves that the change is about */
	SCENE_ROLE_ACT,		/* make the scene's change */
	SCENE_ROLES
};

struct scene_look;

struct scene {
	struct kt *kt;
	const struct scene_plan *plan;
	u32 prefix_len;			/* all keys but the others share a prefix */
	enum scene_act act;		/* the change */
	u32 act_id;			/* the key that it is about */
	u32 gone_id;			/* a key that is removed first, or SCENE_NONE */
	u32 near;			/* a number in a leaf that it locks */
	u32 pair_at;			/* the pair has this number's slice */
	bool pair;			/* it is about the pair's layer */
	enum scene_role role;		/* of the thread that is overtaken */
	struct scene_look *look;
	bool moving;			/* loose keys may be there or not */
	int err;			/* the first error of building the scene */
	struct kt_cursor cur;
	unsigned int nr;
	struct scene_key *sorted[SCENE_KEYS];
	struct scene_key keys[SCENE_KEYS];
};

struct scene_plan {
	const char *name;
	u64 points;			/* bits: the park points that the change passes */
	void (*build)(struct scene *scene);
};

extern const struct scene_plan scene_plans[];
extern const unsigned int scene_nr_plans;

/* Shared prefixes of scenes: one layer, and three. */
#define SCENE_PREFIXES	2
extern const u32 scene_prefixes[SCENE_PREFIXES];

/* The results of readers. */
struct scene_look {
	unsigned int gets;
	unsigned int scans;		/* that reached the end */
	unsigned int busy;		/* gets and scans that gave up */
	const char *wrong;		/* the first error; NULL: none */
	u32 id;				/* of the key */
	int err;
};

struct scene *scene_open(struct kt *kt, const struct scene_plan *plan, u32 prefix_len);
int scene_close(struct scene *scene);

typedef void (*scene_visit)(struct scene *scene, void *arg);
int scene_held(struct scene *scene, enum kvt_park at, scene_visit visit, void *arg);
int scene_on_top(struct scene *scene, enum kvt_park at, scene_visit visit, void *arg);
int scene_overtaken(struct scene *scene, enum kvt_park at, unsigned int nth,
		    enum scene_role role, struct scene_look *look);
void scene_let_go_in(unsigned int ms);

void scene_look(struct scene *scene, struct scene_look *look);
void scene_verify(struct scene *scene, struct scene_look *look);
int scene_write_elsewhere(struct scene *scene);
int scene_write_near(struct scene *scene);
bool scene_may_wait(const struct scene *scene, enum kvt_park at);

#endif /* KVT_TESTS_SCENE_H */
