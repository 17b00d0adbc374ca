// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kvtree"
)

// The version of Redis that clients see when they check for features.
const redisVersion = "7.0.0"

// A section of INFO.
type section struct {
	name string
	text func(c *client) string
}

var sections = []section{
	{"Server", (*client).infoServer},
	{"Clients", (*client).infoClients},
	{"Persistence", (*client).infoPersistence},
	{"Stats", (*client).infoStats},
	{"CPU", (*client).infoCPU},
	{"Replication", func(*client) string { return "role:master\r\nconnected_slaves:0\r\n" }},
	{"Cluster", func(*client) string { return "cluster_enabled:0\r\n" }},
	{"Keyspace", (*client).infoKeyspace},
}

// info is INFO [section...].
func info(c *client, args [][]byte) {
	var parts []string
	for _, section := range sections {
		wanted := len(args) == 1
		for _, arg := range args[1:] {
			wanted = wanted || is(arg, strings.ToUpper(section.name)) || is(arg, "ALL") ||
				is(arg, "DEFAULT") || is(arg, "EVERYTHING")
		}
		if wanted {
			parts = append(parts, "# "+section.name+"\r\n"+section.text(c))
		}
	}
	c.text(strings.Join(parts, "\r\n"))
}

func (c *client) infoServer() string {
	up := time.Since(c.server.started)
	module, version := "", "unknown"
	if m, err := kvtree.Module(); err == nil {
		version = m.Version
	}
	for _, db := range c.server.databases {
		module += fmt.Sprintf("store%d:%s\r\n", db.number, db.name)
	}
	return fmt.Sprintf("redis_version:%s\r\nserver_name:kvtree-server\r\nkvtree_version:%s\r\nredis_mode:standalone\r\n"+
		"process_id:%d\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n%s", redisVersion, version,
		os.Getpid(), int(up.Seconds()), int(up.Hours()/24), module)
}

func (c *client) infoClients() string {
	return fmt.Sprintf("connected_clients:%d\r\nmaxclients:%d\r\n", c.server.connected(), c.server.maxClients)
}

func (c *client) infoPersistence() string {
	text := "loading:0\r\n"
	for _, db := range c.server.databases {
		info := db.opened.Load().info
		text += fmt.Sprintf("store%d_durable:%d\r\nstore%d_synced:%d\r\n", db.number, one(info.Durable),
			db.number, one(db.synced()))
	}
	return text
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// executed returns how many commands were executed.
func executed() uint64 {
	var n uint64
	for _, command := range commands {
		n += command.calls.Load()
	}
	return n
}

func (c *client) infoStats() string {
	counts := &c.server.counts
	return fmt.Sprintf("total_connections_received:%d\r\ntotal_commands_processed:%d\r\n"+
		"rejected_connections:%d\r\nbatches:%d\r\nbatch_operations:%d\r\nprotocol_errors:%d\r\n"+
		"busy:%d\r\n",
		counts.connections.Load(), executed(), counts.rejected.Load(), counts.batches.Load(),
		counts.operations.Load(), counts.protocolErrors.Load(), counts.busy.Load())
}

// infoCPU does not include the kernel's own threads for the stores.
func (c *client) infoCPU() string {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return ""
	}
	return fmt.Sprintf("used_cpu_sys:%d.%06d\r\nused_cpu_user:%d.%06d\r\n", usage.Stime.Sec, usage.Stime.Usec,
		usage.Utime.Sec, usage.Utime.Usec)
}

func (c *client) infoKeyspace() string {
	text := ""
	for _, db := range c.server.databases {
		if info, err := db.opened.Load().Info(); err == nil && info.Keys > 0 {
			text += fmt.Sprintf("db%d:keys=%d,expires=0,avg_ttl=0\r\n", db.number, info.Keys)
		}
	}
	return text
}

// config is CONFIG GET pattern...; nothing can be set at run time.
func config(c *client, args [][]byte) {
	if !is(args[1], "GET") || len(args) < 3 {
		c.failure("ERR kvtree-server only has CONFIG GET: its options are fixed when it starts")
		return
	}
	for _, pattern := range args[2:] {
		if len(args) > 100 || len(pattern) > mostPattern {
			c.error(errPattern)
			return
		}
	}
	var found [][2]string
	for _, setting := range c.server.settings() {
		for _, pattern := range args[2:] {
			if globMatch([]byte(strings.ToLower(string(pattern))), []byte(setting[0])) {
				found = append(found, setting)
				break
			}
		}
	}
	c.pairs(len(found))
	for _, setting := range found {
		c.text(setting[0])
		c.text(setting[1])
	}
}

// settings are the settings that clients ask for, by Redis' names.
func (s *server) settings() [][2]string {
	appends, fsync := "no", "no"
	if db := s.databases[0]; db.opened.Load().info.Durable {
		appends, fsync = "yes", "everysec"
		if db.synced() {
			fsync = "always"
		}
	}
	return [][2]string{
		{"appendfsync", fsync},
		{"appendonly", appends},
		{"databases", fmt.Sprint(len(s.databases))},
		{"maxclients", fmt.Sprint(s.maxClients)},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", fmt.Sprint(kvtree.MaxValue)},
		{"save", ""},
		{"timeout", fmt.Sprint(int(s.timeout.Seconds()))},
	}
}

// commandCommand is COMMAND [COUNT | LIST | DOCS | INFO [name...]].
func commandCommand(c *client, args [][]byte) {
	switch {
	case len(args) == 1:
		c.array(len(commands))
		for _, command := range commands {
			c.commandInfo(command)
		}
	case is(args[1], "COUNT") && len(args) == 2:
		c.integer(int64(len(commands)))
	case is(args[1], "LIST") && len(args) == 2:
		c.array(len(commands))
		for _, command := range commands {
			c.text(strings.ToLower(command.name))
		}
	case is(args[1], "DOCS"):
		c.pairs(0)
	case is(args[1], "INFO"):
		c.array(len(args) - 2)
		for _, name := range args[2:] {
			c.commandInfo(find(name))
			c.sendIfLong()
		}
	default:
		c.failure("ERR kvtree-server has COMMAND, and COMMAND COUNT, LIST, DOCS and INFO")
	}
}

func (c *client) commandInfo(command *command) {
	if command == nil {
		c.null()
		return
	}
	c.array(6)
	c.text(strings.ToLower(command.name))
	c.integer(int64(command.arity))
	switch {
	case command.needs&write != 0:
		c.set(1)
		c.status("write")
	case command.needs == read:
		c.set(1)
		c.status("readonly")
	default:
		c.set(0)
	}
	for _, n := range command.keys {
		c.integer(int64(n))
	}
}

func timeNow(c *client, _ [][]byte) {
	now := time.Now()
	c.array(2)
	c.text(fmt.Sprint(now.Unix()))
	c.text(fmt.Sprint(now.Nanosecond() / 1000))
}
