// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestACommandIsInOneTable(t *testing.T) {
	names := map[string]bool{}
	for _, group := range absentCommands {
		for _, name := range strings.Fields(group.names) {
			if names[name] || byName[name] != nil {
				t.Error(name, "is in the tables twice")
			}
			names[name] = true
		}
	}
}

// connectRedis starts a real Redis server, which ends with the test, and connects to it.
func connectRedis(t *testing.T) *talk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	dir := shortDir(t)
	socket := filepath.Join(dir, "redis")
	redis := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	var log bytes.Buffer
	redis.Stdout, redis.Stderr = &log, &log
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		redis.Process.Kill()
		redis.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return newTalk(t, conn)
		} else if time.Now().After(end) {
			t.Fatal("redis-server does not answer: ", err)
		}
	}
}

// The answer of COMMAND LIST has subcommands as well: "acl|cat".
func TestNothingThatRedisHasIsUnknownWithoutAReason(t *testing.T) {
	k := connectRedis(t)
	list := k.say("COMMAND", "LIST")
	known := map[string]bool{}
	for _, quoted := range strings.Fields(strings.Trim(list, "[]")) {
		name := strings.ToUpper(strings.Trim(quoted, `"`))
		known[name] = true
		if byName[name] == nil && !strings.Contains(name, "|") &&
			strings.HasPrefix(absent([]byte(name)), "ERR unknown command") {
			t.Error(name, "is neither in commands nor, with a reason, in absentCommands")
		}
	}
	if !known["GET"] {
		t.Fatal("no list of commands: ", list)
	}
	for name := range byName {
		if !known[name] && !strings.HasPrefix(name, "KV.") {
			t.Error(name, "is no command of Redis, and has no prefix of its own")
		}
	}
}
