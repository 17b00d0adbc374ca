// SPDX-License-Identifier: GPL-2.0
/* The engines, and the default for stores that name none. */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/kvtree.h>

#include "base/index.h"
#include "engine.h"

static const struct kvt_index_ops *const kvt_engines[] = {
	&kvt_masstree_ops,
	&kvt_bwtree_ops,
};

static const struct kvt_index_ops *kvt_engine_default = &kvt_masstree_ops;

/**
 * kvt_engine_find() - an engine by its name
 * @name: its name, terminated; "": the default
 *
 * Context: any.
 *
 * Return: the engine, or NULL: there is none of that name.
 */
const struct kvt_index_ops *kvt_engine_find(const char *name)
{
	unsigned int i;

	if (!*name)
		return READ_ONCE(kvt_engine_default);
	for (i = 0; i < ARRAY_SIZE(kvt_engines); i++)
		if (!strcmp(kvt_engines[i]->name, name))
			return kvt_engines[i];
	return NULL;
}

/**
 * kvt_engine_has_pages() - whether an engine supports the page size that a user asks for
 * @ops: the engine
 * @size: bytes; 0: the user does not ask
 *
 * Context: any.
 *
 * Return: true if they can.
 */
bool kvt_engine_has_pages(const struct kvt_index_ops *ops, u32 size)
{
	if (!size)
		return true;
	return ops->page_min && size >= ops->page_min && size <= ops->page_max;
}

/**
 * kvt_engine_iter_size() - bytes of the largest iterator
 *
 * Context: any.
 *
 * Return: bytes that an iterator of any engine fits.
 */
size_t kvt_engine_iter_size(void)
{
	size_t size = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kvt_engines); i++)
		size = max(size, kvt_engines[i]->iter_size);
	return size;
}

static int engine_set(const char *text, const struct kernel_param *param)
{
	const struct kvt_index_ops *ops;
	char name[KVTREE_ENGINE_MAX];

	/* As echo writes it. */
	if (strscpy(name, text, sizeof(name)) < 0)
		return -EINVAL;
	ops = kvt_engine_find(strim(name));
	if (!ops)
		return -EINVAL;
	WRITE_ONCE(kvt_engine_default, ops);
	return 0;
}

static int engine_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%s\n", READ_ONCE(kvt_engine_default)->name);
}

static const struct kernel_param_ops engine_param_ops = {
	.set = engine_set,
	.get = engine_get,
};

module_param_cb(engine, &engine_param_ops, NULL, 0644);
MODULE_PARM_DESC(engine, "index engine of new stores that name none: masstree or bwtree");
