// SPDX-License-Identifier: GPL-2.0

package main

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// An option without effect is refused: the user must have intended something else.
func TestOptions(t *testing.T) {
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	passed := map[string]net.Listener{"unix": unix, "tcp": anAddress{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}}
	for _, test := range []struct{ passed, args, want string }{
		{"", "", ""},
		{"", "a b --unix /s --unix-mode 0600 --durable async --threads 2 --timeout 5 --max-clients 7 --metrics :1", ""},
		{"", "--unix-mode 0600", ""},
		{"", "--listen h:1 --password-file f", ""},
		{"", "--listen h:1 --no-password --tls-cert c --tls-key k", ""},
		{"", "--listen h:1 --tls-ca a --tls-cert c --tls-key k --password-file f --unix /s --unix-mode 0600", ""},
		{"unix", "--listen h:1 --password-file f", ""},
		{"unix", "--unix /s --unix-mode 0600", ""},
		{"tcp", "--no-password", ""},
		{"tcp unix", "--tls-ca a --tls-cert c --tls-key k --threads 2", ""},
		{"tcp", "--no-password --threads 2", ""},
		{"", "--listen h:1 --tls-ca a --tls-cert c --tls-key k --unix /s --threads 2", ""},
		{"", "--unix /s --no-password=false", ""},
		{"", "--unix /s --durable never --durable async --no-password --no-password=false", ""},

		{"", "--frobnicate", "--frobnicate: unknown option"},
		{"", "a --frobnicate=1", "--frobnicate: unknown option"},
		{"", "-x", "-x: unknown option"},
		{"", "--=x", "--=x: unknown option"},
		{"", "--listen", "--listen: its value is missing"},
		{"", "--version=x", "--version: it takes no value"},
		{"", "--timeout -1", "--timeout -1: not a valid number"},
		{"", "--threads x", "--threads x: not a valid number"},
		{"", "--max-clients 99999999999999999999", "--max-clients 99999999999999999999: not a valid number"},
		{"", "--timeout ''", "--timeout : not a valid number"},

		{"", "a b a", "the store a is named twice"},
		{"", "a ''", "the name of a store is empty"},
		{"", "--unix ''", "--unix: its value is empty"},
		{"", "--unix /s --listen ''", "--listen: its value is empty"},
		{"", "--unix /s --unix-mode ''", "--unix-mode: its value is empty"},
		{"", "--unix-mode 1000", "--unix-mode 1000: not an octal mode, such as 0660"},
		{"", "--listen h --no-password", "--listen h: not HOST:PORT"},
		{"", "--metrics 9121", "--metrics 9121: not HOST:PORT"},
		{"", "--listen h:1", "--listen: every user could connect: "},
		{"", "--durable never", "--durable never: it is always or async"},
		{"", "--threads 1025", "--threads must be 0 to 1024"},
		{"", "--max-clients 0", "--max-clients must be at least 1"},
		{"", "--listen h:1 --no-password --tls-cert c", "--tls-cert and --tls-key belong together"},
		{"", "--listen h:1 --tls-ca a", "--tls-ca needs --tls-cert and --tls-key"},
		{"", "--listen h:1 --no-password --password-file f", "--no-password and --password-file contradict each other"},
		{"", "--listen h:1 --no-password --tls-ca a --tls-cert c --tls-key k", "--no-password and --tls-ca contradict each other"},
		{"", "--unix /s --no-password", "--no-password is for TCP: give --listen"},
		{"", "--password-file f", "--password-file is for TCP: give --listen"},
		{"", "--password-file false", "--password-file is for TCP: give --listen"},
		{"", "--unix /s --tls-cert c --tls-key k", "--tls-cert is for TCP: give --listen"},
		{"unix", "--tls-ca a --tls-cert c --tls-key k", "--tls-cert is for TCP: give --listen"},
		{"unix", "--no-password", "--no-password is for TCP: give --listen"},
		{"", "--listen h:1 --password-file f --unix-mode 0600", "--unix-mode is for a Unix socket that the server makes"},
		{"unix", "--unix-mode 0600", "--unix-mode is for a Unix socket that the server makes"},
		{"", "--unix @s --unix-mode 0600", "--unix-mode is for a socket in a folder"},
		{"", "--listen h:1 --no-password --tls-cert c --tls-key k --threads 2", "--threads is for clients without TLS"},
		{"tcp", "--tls-ca a --tls-cert c --tls-key k --threads 2", "--threads is for clients without TLS"},
	} {
		args := strings.Fields(test.args)
		for i := range args {
			args[i] = strings.Trim(args[i], "'")
		}
		var listeners []net.Listener
		for _, name := range strings.Fields(test.passed) {
			listeners = append(listeners, passed[name])
		}
		o, err := parse(args, io.Discard)
		if err == nil {
			err = o.checkUse(listeners)
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s: %v, not %q", test.args, err, test.want)
		}
	}
}

// anAddress is a listener that only has an address.
type anAddress struct{ addr net.Addr }

func (a anAddress) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (a anAddress) Close() error              { return nil }
func (a anAddress) Addr() net.Addr            { return a.addr }
