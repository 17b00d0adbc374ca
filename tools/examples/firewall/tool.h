/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FIREWALL_TOOL_H
#define FIREWALL_TOOL_H

#include "example.h"
#include "firewall.h"

#define RULES_STORE	"firewall"
#define COUNTS_STORE	"firewall-counts"

/* Packets of a protocol from a prefix to ports first..last. */
struct rule {
	uint8_t ip;		/* 4 or 6 */
	uint8_t protocol;	/* FW_* */
	uint8_t action;
	uint8_t len;
	uint8_t net[16];	/* for IPv4 the first 4 bytes */
	uint16_t first;
	uint16_t last;
};

#define RULE_TEXT	128

/* rule.c: rules as text and as records */
const char *parse_action(const char *text, uint8_t *action);
const char *parse_what(const char *protocol, const char *prefix, const char *ports,
		       struct rule *rule);
const char *parse_ports(const char *text, struct rule *rule);
const char *parse_rule(int nr, char **words, struct rule *rule);
int split_words(char *line, char **words, int max);
size_t rule_key(const struct rule *rule, union fw_key *key);
struct fw_rule rule_value(const struct rule *rule);
bool rule_read(const void *key, size_t key_len, const void *val, size_t len,
	       struct rule *rule);
const char *rule_text(const struct rule *rule, char *text);
json_t *rule_json(const struct rule *rule);

/* change.c */
int cmd_add(int argc, char **argv);
int cmd_del(int argc, char **argv);
int cmd_change(int argc, char **argv);

/* show.c */
int cmd_list(int argc, char **argv);
int cmd_stats(int argc, char **argv);

/* attach.c */
struct firewall;
struct firewall *firewall_load(uint8_t no_rule, bool counting);
int cmd_load(int argc, char **argv);
int cmd_unload(int argc, char **argv);

/* check.c */
int cmd_check(int argc, char **argv);

#endif /* FIREWALL_TOOL_H */
