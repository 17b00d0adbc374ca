/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_MODULE_H
#define SHIM_MODULE_H

#include <errno.h>
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#define MODULE_LICENSE(text)
#define MODULE_DESCRIPTION(text)
#define MODULE_IMPORT_NS(ns)
#define EXPORT_SYMBOL_NS_GPL(symbol, ns)

#endif /* SHIM_MODULE_H */
