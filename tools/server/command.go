// SPDX-License-Identifier: GPL-2.0

package main

import (
	"strings"
	"sync/atomic"

	"kvtree"
)

// A command is a command of clients.
type command struct {
	name      string
	arity     int           // number of arguments including the name; negative: the minimum
	needs     kvtree.Access // to the store
	keys      [3]int        // the first key, the last, and the step, for COMMAND
	queues    bool          // it may be executed in a batch
	long      bool          // it may take long
	strangers bool          // it is allowed before AUTH
	run       func(c *client, args [][]byte)
	calls     atomic.Uint64
}

const (
	read  = kvtree.Read
	write = kvtree.Write
	both  = kvtree.ReadWrite
)

var (
	noKey   = [3]int{0, 0, 0}
	oneKey  = [3]int{1, 1, 1}
	allKeys = [3]int{1, -1, 1}
	keyEach = [3]int{1, -1, 2}
)

var commands []*command

var byName = map[string]*command{}

// Set here because the table refers to functions that use it.
func init() {
	commands = []*command{
		{name: "GET", arity: 2, needs: read, keys: oneKey, queues: true, run: get},
		{name: "MGET", arity: -2, needs: read, keys: allKeys, queues: true, run: mget},
		{name: "STRLEN", arity: 2, needs: read, keys: oneKey, queues: true, run: strlen},
		{name: "EXISTS", arity: -2, needs: read, keys: allKeys, queues: true, run: exists},
		{name: "SET", arity: -3, needs: write, keys: oneKey, queues: true, run: set},
		{name: "SETNX", arity: 3, needs: write, keys: oneKey, queues: true, run: setnx},
		{name: "MSET", arity: -3, needs: write, keys: keyEach, queues: true, run: mset},
		{name: "DEL", arity: -2, needs: write, keys: allKeys, queues: true, run: del},
		{name: "UNLINK", arity: -2, needs: write, keys: allKeys, queues: true, run: del},

		{name: "GETSET", arity: 3, needs: both, keys: oneKey, run: getset},
		{name: "GETDEL", arity: 2, needs: both, keys: oneKey, run: getdel},
		{name: "APPEND", arity: 3, needs: both, keys: oneKey, queues: true, run: appendTo},
		{name: "GETRANGE", arity: 4, needs: read, keys: oneKey, run: getrange},
		{name: "SUBSTR", arity: 4, needs: read, keys: oneKey, run: getrange},
		{name: "SETRANGE", arity: 4, needs: both, keys: oneKey, queues: true, run: setrange},
		{name: "INCR", arity: 2, needs: both, keys: oneKey, queues: true, run: incr},
		{name: "DECR", arity: 2, needs: both, keys: oneKey, queues: true, run: decr},
		{name: "INCRBY", arity: 3, needs: both, keys: oneKey, queues: true, run: incrby},
		{name: "DECRBY", arity: 3, needs: both, keys: oneKey, queues: true, run: decrby},

		{name: "HSET", arity: -4, needs: both, keys: oneKey, queues: true, run: hset},
		{name: "HMSET", arity: -4, needs: both, keys: oneKey, queues: true, run: hmset},
		{name: "HSETNX", arity: 4, needs: both, keys: oneKey, queues: true, run: hsetnx},
		{name: "HGET", arity: 3, needs: read, keys: oneKey, run: hget},
		{name: "HMGET", arity: -3, needs: read, keys: oneKey, long: true, run: hmget},
		{name: "HGETALL", arity: 2, needs: read, keys: oneKey, run: hgetall},
		{name: "HKEYS", arity: 2, needs: read, keys: oneKey, run: hkeys},
		{name: "HVALS", arity: 2, needs: read, keys: oneKey, run: hvals},
		{name: "HDEL", arity: -3, needs: both, keys: oneKey, queues: true, run: hdel},
		{name: "HEXISTS", arity: 3, needs: read, keys: oneKey, run: hexists},
		{name: "HLEN", arity: 2, needs: read, keys: oneKey, run: hlen},
		{name: "HSTRLEN", arity: 3, needs: read, keys: oneKey, run: hstrlen},
		{name: "HINCRBY", arity: 4, needs: both, keys: oneKey, queues: true, run: hincrby},

		{name: "TYPE", arity: 2, needs: read, keys: oneKey, run: typeOf},
		{name: "SCAN", arity: -2, needs: read, long: true, run: scan},
		{name: "KV.RANGE", arity: -3, needs: read, long: true, run: kvRange},
		{name: "DBSIZE", arity: 1, needs: read, run: dbsize},
		{name: "FLUSHDB", arity: -1, needs: both, long: true, run: flushdb},

		{name: "PING", arity: -1, run: ping},
		{name: "ECHO", arity: 2, run: echo},
		{name: "SELECT", arity: 2, run: selectDatabase},
		{name: "AUTH", arity: -2, strangers: true, run: auth},
		{name: "HELLO", arity: -1, strangers: true, run: hello},
		{name: "CLIENT", arity: -2, long: true, run: clientCommand},
		{name: "QUIT", arity: -1, strangers: true, run: quit},
		{name: "RESET", arity: 1, strangers: true, run: reset},

		{name: "INFO", arity: -1, long: true, run: info},
		{name: "CONFIG", arity: -2, long: true, run: config},
		{name: "COMMAND", arity: -1, long: true, run: commandCommand},
		{name: "TIME", arity: 1, run: timeNow},
	}
	for _, command := range commands {
		byName[command.name] = command
	}
}

// find finds a command by its name, in upper or lower case; nil if there is none.
func find(name []byte) *command {
	var upper [16]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, c := range name {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	return byName[string(upper[:len(name)])]
}

// Commands of Redis that are missing here, and why. A reason applies to all commands that begin
// with the words after it.
var absentCommands = []struct {
	why   string
	names string
}{
	{"there are no transactions", "MULTI EXEC DISCARD WATCH UNWATCH MSETNX"},
	{"keys do not expire", "EXPIRE PEXPIRE EXPIREAT PEXPIREAT EXPIRETIME PEXPIRETIME TTL PTTL PERSIST " +
		"SETEX PSETEX GETEX HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HEXPIRETIME HPEXPIRETIME HTTL HPTTL HPERSIST " +
		"HGETEX HSETEX"},
	{"there are no messages between clients", "SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE PUBLISH PUBSUB " +
		"SSUBSCRIBE SUNSUBSCRIBE SPUBLISH MONITOR"},
	{"values are strings and hashes, and there are no lists", "LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LRANGE LLEN " +
		"LINDEX LSET LINSERT LREM LTRIM LPOS LMOVE LMPOP RPOPLPUSH BLPOP BRPOP BLMOVE BLMPOP BRPOPLPUSH"},
	{"keys are sorted: see KV.RANGE", "SORT SORT_RO"},
	{"values are strings and hashes, and there are no sets", "SADD SREM SMEMBERS SISMEMBER SMISMEMBER SCARD SPOP " +
		"SRANDMEMBER SMOVE SINTER SINTERCARD SINTERSTORE SUNION SUNIONSTORE SDIFF SDIFFSTORE SSCAN PFADD PFCOUNT PFMERGE " +
		"PFDEBUG PFSELFTEST VADD VCARD VDIM VEMB VGETATTR VINFO VISMEMBER VLINKS VRANDMEMBER VREM VSETATTR VSIM"},
	{"values are strings and hashes; keys themselves are sorted: see KV.RANGE", "ZADD ZREM ZRANGE ZRANGEBYSCORE " +
		"ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE ZREVRANGEBYLEX ZRANGESTORE ZCARD ZCOUNT ZSCORE ZMSCORE ZRANK ZREVRANK " +
		"ZINCRBY ZLEXCOUNT ZPOPMIN ZPOPMAX BZPOPMIN BZPOPMAX ZMPOP BZMPOP ZREMRANGEBYRANK ZREMRANGEBYSCORE " +
		"ZREMRANGEBYLEX ZUNION ZINTER ZDIFF ZUNIONSTORE ZINTERSTORE ZDIFFSTORE ZINTERCARD ZRANDMEMBER ZSCAN GEOADD " +
		"GEOPOS GEODIST GEOHASH GEOSEARCH GEOSEARCHSTORE GEORADIUS GEORADIUS_RO GEORADIUSBYMEMBER " +
		"GEORADIUSBYMEMBER_RO"},
	{"values are strings and hashes, and there are no streams", "XADD XREAD XRANGE XREVRANGE XLEN XDEL XTRIM " +
		"XGROUP XREADGROUP XACK XPENDING XCLAIM XAUTOCLAIM XINFO XSETID"},
	{"it runs no scripts", "EVAL EVALSHA EVAL_RO EVALSHA_RO SCRIPT FUNCTION FCALL FCALL_RO"},
	{"it is one machine's: clients can spread keys over several", "CLUSTER REPLICAOF SLAVEOF REPLCONF PSYNC SYNC ROLE " +
		"FAILOVER WAIT WAITAOF MIGRATE ASKING RESTORE-ASKING READONLY READWRITE"},
	{"a durable store is written to its devices as it changes", "SAVE BGSAVE BGREWRITEAOF LASTSAVE DUMP RESTORE"},
	{"rights are those of the store, and one password", "ACL"},
	{"SCAN has MATCH and COUNT, and KV.RANGE is ordered", "KEYS RANDOMKEY HSCAN HRANDFIELD"},
	{"it would have to change two keys at once", "RENAME RENAMENX COPY MOVE SWAPDB"},
	{"a store is shared with others: FLUSHDB empties one", "FLUSHALL"},
	{"use HGET and HDEL", "HGETDEL"},
	{"numbers are whole", "INCRBYFLOAT HINCRBYFLOAT"},
	{"strings have no such operations", "GETBIT SETBIT BITCOUNT BITPOS BITOP BITFIELD BITFIELD_RO LCS"},
	{"see INFO, /metrics and \"kvtree stat\"", "MEMORY OBJECT DEBUG LATENCY SLOWLOG MODULE"},
	{"see INFO for the version", "LOLWUT"},
	{"keys have no time of access", "TOUCH"},
	{"stop its service instead", "SHUTDOWN"},
}

// absent returns the error for an unknown or missing command.
func absent(name []byte) string {
	upper := strings.ToUpper(string(name[:min(len(name), 64)]))
	for _, group := range absentCommands {
		for _, n := range strings.Fields(group.names) {
			if n == upper {
				return "ERR kvtree-server has no " + n + ": " + group.why
			}
		}
	}
	return "ERR unknown command '" + upper + "'"
}
