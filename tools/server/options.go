// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	defaultSocket = "/run/kvtree-server.sock"
	mostThreads   = 1024
)

// options are the options of the command line.
type options struct {
	stores       []string
	unix         string
	unixMode     uint32
	listen       string
	passwordFile string
	noPassword   bool
	tlsCert      string
	tlsKey       string
	tlsCA        string
	durable      string
	metrics      string
	maxClients   int
	timeout      time.Duration
	threads      int
	version      bool
	given        func(option string) bool
}

const usage = `usage: kvtree-server [OPTIONS] [STORE...]

Lets Redis clients use kvtree stores. The first store is database 0, the next is
database 1; without any it is the store "default". Of an option that is
given twice, the last counts. See kvtree-server(8).

`

// parse parses the command line. It returns pflag.ErrHelp after printing the help text.
func parse(args []string, out io.Writer) (*options, error) {
	o := new(options)
	var mode string
	var seconds uint32
	flags := pflag.NewFlagSet("kvtree-server", pflag.ContinueOnError)
	flags.SortFlags = false
	// A switch that is off counts as not given.
	o.given = func(option string) bool {
		flag := flags.Lookup(option)
		off := flag.Value.Type() == "bool" && flag.Value.String() == "false"
		return flag.Changed && !off
	}
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.unix, "unix", "", "listen on a Unix socket at `PATH`\n("+defaultSocket+
		" if there is no other socket)")
	flags.StringVar(&mode, "unix-mode", "0666", "`MODE` of that socket; the store's owner and mode\ndecide what a user may do")
	flags.StringVar(&o.listen, "listen", "", "listen on TCP at `HOST:PORT`")
	flags.StringVar(&o.passwordFile, "password-file", "", "password for AUTH on TCP: the first line of `FILE`")
	flags.BoolVar(&o.noPassword, "no-password", false, "require no password on a loopback address: every user\nof this machine may do what the server may")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "use TLS on TCP, with the certificate in `FILE`")
	flags.StringVar(&o.tlsKey, "tls-key", "", "`FILE` with its key")
	flags.StringVar(&o.tlsCA, "tls-ca", "", "TLS clients need a certificate of a CA in `FILE`")
	flags.StringVar(&o.durable, "durable", "", "answer changes when they are on the devices (always)\n"+
		"or before (async); `WHEN` is always by default, for\ndurable stores")
	flags.StringVar(&o.metrics, "metrics", "", "serve /metrics over HTTP at `HOST:PORT`")
	flags.IntVar(&o.maxClients, "max-clients", 10000, "at most `N` clients at once")
	flags.Uint32Var(&seconds, "timeout", 0, "close clients that are silent for `SECONDS`; 0: never")
	flags.IntVar(&o.threads, "threads", 0, "`N` threads serve the clients without TLS; 0: one for\nevery two processors")
	flags.BoolVar(&o.version, "version", false, "print the version")
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(out, usage, flags.FlagUsages())
		return nil, err
	} else if err != nil {
		return nil, reword(err)
	}
	flags.Visit(func(flag *pflag.Flag) {
		if flag.Value.String() == "" && err == nil {
			err = fmt.Errorf("--%s: its value is empty", flag.Name)
		}
	})
	if err != nil {
		return nil, err
	}
	o.timeout = time.Duration(seconds) * time.Second
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil || bits > 0o777 {
		return nil, fmt.Errorf("--unix-mode %s: not an octal mode, such as 0660", mode)
	}
	o.unixMode = uint32(bits)
	if o.stores = flags.Args(); len(o.stores) == 0 {
		o.stores = []string{"default"}
	}
	return o, o.check()
}

// pflag's error messages, and their replacements in the style of the other messages.
var pflagTexts = []struct {
	text *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`^unknown flag: (.*)`), "$1: unknown option"},
	{regexp.MustCompile(`^unknown shorthand flag: '(.)' in .*`), "-$1: unknown option"},
	{regexp.MustCompile(`^bad flag syntax: (.*)`), "$1: unknown option"},
	{regexp.MustCompile(`^flag needs an argument: (.*)`), "$1: its value is missing"},
	{regexp.MustCompile(`^invalid argument "(.*)" for "(.*)" flag: strconv.ParseBool.*`), "$2: it takes no value"},
	{regexp.MustCompile(`^invalid argument "(.*)" for "(.*)" flag: .*`), "$2 $1: not a valid number"},
}

func reword(err error) error {
	for _, t := range pflagTexts {
		if t.text.MatchString(err.Error()) {
			return errors.New(t.text.ReplaceAllString(err.Error(), t.says))
		}
	}
	return err
}

func (o *options) check() error {
	for i, name := range o.stores {
		if slices.Contains(o.stores[:i], name) {
			return fmt.Errorf("the store %s is named twice", name)
		}
		if name == "" {
			return errors.New("the name of a store is empty")
		}
	}
	for _, option := range [][2]string{{"--listen", o.listen}, {"--metrics", o.metrics}} {
		if _, _, err := net.SplitHostPort(option[1]); err != nil && option[1] != "" {
			return fmt.Errorf("%s %s: not HOST:PORT", option[0], option[1])
		}
	}
	switch {
	case o.noPassword && o.passwordFile != "":
		return errors.New("--no-password and --password-file contradict each other")
	case o.noPassword && o.tlsCA != "":
		return errors.New("--no-password and --tls-ca contradict each other: clients need a certificate")
	case o.listen != "" && o.passwordFile == "" && o.tlsCA == "" && !o.noPassword:
		return errors.New("--listen: every user could connect: give --password-file or --tls-ca, or, " +
			"for a loopback address, --no-password")
	case o.durable != "" && o.durable != "always" && o.durable != "async":
		return fmt.Errorf("--durable %s: it is always or async", o.durable)
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return errors.New("--tls-cert and --tls-key belong together")
	case o.tlsCA != "" && o.tlsCert == "":
		return errors.New("--tls-ca needs --tls-cert and --tls-key")
	case o.maxClients < 1:
		return errors.New("--max-clients must be at least 1")
	case o.threads < 0 || o.threads > mostThreads:
		return fmt.Errorf("--threads must be 0 to %d", mostThreads)
	}
	return nil
}

// checkUse refuses options that have no effect on the server's sockets.
func (o *options) checkUse(passed []net.Listener) error {
	tcp, local := o.listen != "", o.unix != ""
	for _, l := range passed {
		_, ok := l.Addr().(*net.TCPAddr)
		tcp, local = tcp || ok, local || !ok
	}
	for _, option := range []string{"password-file", "no-password", "tls-cert", "tls-key", "tls-ca"} {
		if o.given(option) && !tcp {
			return fmt.Errorf("--%s is for TCP: give --listen", option)
		}
	}
	switch {
	case o.given("unix-mode") && o.unix == "" && (tcp || local):
		return errors.New("--unix-mode is for a Unix socket that the server makes: give --unix")
	case o.given("unix-mode") && strings.HasPrefix(o.unix, "@"):
		return fmt.Errorf("--unix-mode is for a socket in a folder: %s has none, and every user may connect", o.unix)
	case o.given("threads") && o.given("tls-cert") && !local:
		return errors.New("--threads is for clients without TLS: there will be none")
	}
	return nil
}

// password reads the first line of the password file; nil without one.
func (o *options) password() ([]byte, error) {
	if o.passwordFile == "" {
		return nil, nil
	}
	file, err := os.Open(o.passwordFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", o.passwordFile)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s can be read by every user: chmod o= %s", o.passwordFile, o.passwordFile)
	}
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
		return nil, fmt.Errorf("%s: its first line is empty", o.passwordFile)
	}
	return line, nil
}
