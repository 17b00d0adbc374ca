// SPDX-License-Identifier: GPL-2.0
/* Rules, as text and as records. */
#include <arpa/inet.h>
#include <string.h>

#include "tool.h"

#define PORT_MAX	65535

static const char * const protocols[FW_PROTOCOLS] = {
	[FW_IP] = "ip",
	[FW_TCP] = "tcp",
	[FW_UDP] = "udp",
	[FW_ICMP] = "icmp",
};

/**
 * parse_action() - parse "pass" or "drop"
 * @text: the text
 * @action: set
 *
 * Return: NULL, or an error message
 */
const char *parse_action(const char *text, uint8_t *action)
{
	if (strcmp(text, "pass") && strcmp(text, "drop"))
		return "the action is pass or drop";
	*action = *text == 'p' ? FW_PASS : FW_DROP;
	return NULL;
}

static const char *parse_protocol(const char *text, uint8_t *protocol)
{
	uint8_t i;

	for (i = 0; i < FW_PROTOCOLS; i++) {
		if (!strcmp(text, protocols[i])) {
			*protocol = i;
			return NULL;
		}
	}
	*protocol = FW_PROTOCOLS;
	return !strcmp(text, "any") ? NULL :
	       "the protocol is tcp, udp, icmp, ip (all others) or any";
}

/* Clear bits beyond the prefix; return whether any was set. */
static bool cut(uint8_t *net, unsigned int len)
{
	unsigned int i;
	uint8_t keep;
	bool more = false;

	for (i = 0; i < 16; i++) {
		keep = len >= 8 ? 0xff : (uint8_t)~(0xff >> len);
		more |= net[i] & (uint8_t)~keep;
		net[i] &= keep;
		len -= len < 8 ? len : 8;
	}
	return more;
}

/*
 * Convert an IPv4 address written as a mapped IPv6 address: packets have the plain form.  Keep
 * shorter prefixes of mapped addresses: lists of networks to block for IPv6 have them, and do not
 * mean IPv4.
 */
static void unmap(struct rule *rule)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (rule->ip == 4 || rule->len < 128 || memcmp(rule->net, mapped, sizeof(mapped)))
		return;
	rule->ip = 4;
	rule->len = 32;
	memmove(rule->net, rule->net + 12, 4);
	memset(rule->net + 4, 0, 12);
}

static const char *parse_prefix(const char *text, struct rule *rule)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	uint64_t len;

	if (n >= sizeof(address))
		return "not an address";
	memcpy(address, text, n);
	address[n] = 0;
	memset(rule->net, 0, sizeof(rule->net));
	rule->ip = strchr(address, ':') ? 6 : 4;
	if (inet_pton(rule->ip == 6 ? AF_INET6 : AF_INET, address, rule->net) != 1)
		return "not an address such as 192.0.2.0/24 or 2001:db8::/32";
	len = rule->ip == 6 ? 128 : 32;
	if (slash && !parse_number(slash + 1, len, &len))
		return "a prefix has a length of at most 32, or 128 bits for IPv6";
	rule->len = (uint8_t)len;
	if (cut(rule->net, rule->len))
		return "the address has bits beyond the length of the prefix";
	unmap(rule);
	return NULL;
}

/**
 * parse_ports() - parse FIRST-LAST, one port, or "any"
 * @text: the text
 * @rule: to set its ports
 *
 * Return: NULL, or an error message
 */
const char *parse_ports(const char *text, struct rule *rule)
{
	const char *dash = strchr(text, '-');
	uint64_t first, last;
	char begin[8];

	rule->first = 0;
	rule->last = PORT_MAX;
	if (!strcmp(text, "any"))
		return NULL;
	snprintf(begin, sizeof(begin), "%.*s", dash ? (int)(dash - text) : 7, text);
	if (!parse_number(begin, PORT_MAX, &first) ||
	    !parse_number(dash ? dash + 1 : begin, PORT_MAX, &last) || last < first)
		return "ports are a number up to 65535, FIRST-LAST, or any";
	rule->first = (uint16_t)first;
	rule->last = (uint16_t)last;
	return NULL;
}

/**
 * parse_what() - parse a rule's protocol, prefix and ports
 * @protocol: its name; "any" is FW_PROTOCOLS, which the caller expands
 * @prefix: of addresses
 * @ports: as for parse_ports(); NULL: any
 * @rule: set, except for the action
 *
 * Return: NULL, or an error message
 */
const char *parse_what(const char *protocol, const char *prefix, const char *ports,
		       struct rule *rule)
{
	const char *wrong;

	wrong = parse_protocol(protocol, &rule->protocol);
	if (!wrong)
		wrong = parse_prefix(prefix, rule);
	if (!wrong)
		wrong = parse_ports(ports ? ports : "any", rule);
	if (!wrong && rule->protocol == FW_PROTOCOLS && ports && strcmp(ports, "any"))
		wrong = "ports need a protocol: name it";
	return wrong;
}

/**
 * parse_rule() - parse ACTION PROTOCOL PREFIX [PORTS]
 * @nr: number of words
 * @words: the words
 * @rule: set
 *
 * Return: NULL, or an error message
 */
const char *parse_rule(int nr, char **words, struct rule *rule)
{
	const char *wrong;

	if (nr < 3 || nr > 4)
		return "a rule is ACTION PROTOCOL PREFIX [PORTS]";
	wrong = parse_action(words[0], &rule->action);
	if (!wrong)
		wrong = parse_what(words[1], words[2], nr > 3 ? words[3] : NULL, rule);
	return wrong;
}

/**
 * split_words() - split a line into words, without a comment after # or ;
 * @line: changed
 * @words: set
 * @max: elements at @words
 *
 * Return: the number of words, at most @max
 */
int split_words(char *line, char **words, int max)
{
	char *word, *save;
	int n = 0;

	line[strcspn(line, "#;")] = 0;
	for (word = strtok_r(line, " \t\r\n", &save); word && n < max;
	     word = strtok_r(NULL, " \t\r\n", &save))
		words[n++] = word;
	return n;
}

/**
 * rule_key() - the key of a rule
 * @rule: the rule
 * @key: set
 *
 * Return: bytes in the key
 */
size_t rule_key(const struct rule *rule, union fw_key *key)
{
	uint8_t table = (uint8_t)FW_TABLE(rule->ip, rule->protocol);

	memset(key, 0, sizeof(*key));
	if (rule->ip == 4) {
		key->v4.table = table;
		memcpy(&key->v4.net, rule->net, sizeof(key->v4.net));
		key->v4.len = rule->len;
		key->v4.first = htons(rule->first);
		return sizeof(key->v4);
	}
	key->v6.table = table;
	memcpy(key->v6.net, rule->net, sizeof(key->v6.net));
	key->v6.len = rule->len;
	key->v6.first = htons(rule->first);
	return sizeof(key->v6);
}

/**
 * rule_value() - the value of a rule
 * @rule: the rule
 *
 * Return: the value
 */
struct fw_rule rule_value(const struct rule *rule)
{
	return (struct fw_rule){ .last = htons(rule->last), .action = rule->action };
}

/**
 * rule_read() - decode a record of the store
 * @key: its key
 * @key_len: bytes at @key
 * @val: its value
 * @len: bytes at @val
 * @rule: set
 *
 * Return: whether the record is a rule
 */
bool rule_read(const void *key, size_t key_len, const void *val, size_t len,
	       struct rule *rule)
{
	struct fw_rule value;
	union fw_key k = { 0 };

	if (!key_len || key_len > sizeof(k) || len != sizeof(value))
		return false;
	memcpy(&k, key, key_len);
	memcpy(&value, val, len);
	*rule = (struct rule){
		.ip = k.table >> 4, .protocol = k.table & 15, .action = value.action,
		.last = ntohs(value.last),
	};
	if (rule->protocol >= FW_PROTOCOLS || rule->action > FW_PASS)
		return false;
	if (rule->ip == 4 && key_len == sizeof(k.v4)) {
		memcpy(rule->net, &k.v4.net, sizeof(k.v4.net));
		rule->len = k.v4.len;
		rule->first = ntohs(k.v4.first);
		return true;
	}
	if (rule->ip == 6 && key_len == sizeof(k.v6)) {
		memcpy(rule->net, k.v6.net, sizeof(k.v6.net));
		rule->len = k.v6.len;
		rule->first = ntohs(k.v6.first);
		return true;
	}
	return false;
}

static void prefix_text(const struct rule *rule, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN];

	inet_ntop(rule->ip == 6 ? AF_INET6 : AF_INET, rule->net, address, sizeof(address));
	snprintf(text, size, "%s/%u", address, rule->len);
}

/**
 * rule_text() - format a rule for parse_rule()
 * @rule: the rule
 * @text: RULE_TEXT bytes
 *
 * Return: @text
 */
const char *rule_text(const struct rule *rule, char *text)
{
	char prefix[INET6_ADDRSTRLEN + 4], ports[16] = "any";

	prefix_text(rule, prefix, sizeof(prefix));
	if (rule->first == rule->last)
		snprintf(ports, sizeof(ports), "%u", rule->first);
	else if (rule->first || rule->last != PORT_MAX)
		snprintf(ports, sizeof(ports), "%u-%u", rule->first, rule->last);
	snprintf(text, RULE_TEXT, "%s %s %s %s", rule->action == FW_PASS ? "pass" : "drop",
		 protocols[rule->protocol], prefix, ports);
	return text;
}

/**
 * rule_json() - format a rule as an object
 * @rule: the rule
 *
 * Return: the object
 */
json_t *rule_json(const struct rule *rule)
{
	char prefix[INET6_ADDRSTRLEN + 4];
	json_t *obj = json_object();

	prefix_text(rule, prefix, sizeof(prefix));
	json_put(obj, "action", json_string(rule->action == FW_PASS ? "pass" : "drop"));
	json_put(obj, "protocol", json_string(protocols[rule->protocol]));
	json_put(obj, "prefix", json_string(prefix));
	json_put(obj, "first", json_integer(rule->first));
	json_put(obj, "last", json_integer(rule->last));
	return obj;
}
