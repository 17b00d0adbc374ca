// SPDX-License-Identifier: GPL-2.0

// kvtree-server lets Redis clients use kvtree stores. See Documentation/server.rst.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"kvtree"
)

// version is set by the Makefile.
var version = "unknown"

func main() {
	log.SetFlags(0)
	log.SetPrefix("kvtree-server: ")
	o, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		refuse(err)
	case o.version:
		fmt.Println("kvtree-server", version)
		return
	}
	passed, err := passedListeners()
	if err != nil {
		log.Fatal(err)
	}
	if err := o.checkUse(passed); err != nil {
		refuse(err)
	}
	if err := o.run(passed); err != nil {
		log.Fatal(err)
	}
}

// refuse ends the program after an error in its options.
func refuse(err error) {
	log.Printf("%v; see kvtree-server --help", err)
	os.Exit(2)
}

// run serves until it is asked to stop.
func (o *options) run(passed []net.Listener) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	s, err := o.server(ctx)
	if err != nil {
		return err
	}
	listeners, err := o.listeners(passed)
	if err != nil {
		return err
	}
	where := addresses(listeners)
	if o.metrics != "" {
		l, err := net.Listen("tcp", o.metrics)
		if err != nil {
			return err
		}
		s.serveMetrics(l)
		where = append(where, "http://"+l.Addr().String()+"/metrics")
	}
	log.Print("ready on ", strings.Join(where, ", "))
	notify("READY=1")
	// A second signal ends the program immediately.
	context.AfterFunc(ctx, stop)
	s.serve(listeners)
	notify("STOPPING=1")
	return s.sync()
}

func addresses(listeners []net.Listener) []string {
	var where []string
	for _, l := range listeners {
		where = append(where, l.Addr().String())
	}
	return where
}

// server creates the server from the options.
func (o *options) server(ctx context.Context) (*server, error) {
	password, err := o.password()
	if err != nil {
		return nil, err
	}
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	var databases []*database
	for i, name := range o.stores {
		db, err := newDatabase(i, name, o.durable)
		if err != nil {
			return nil, err
		}
		databases = append(databases, db)
	}
	s := newServer(ctx, databases)
	s.tls, s.maxClients, s.timeout = config, o.maxClients, o.timeout
	if password != nil {
		s.setPassword(password)
	}
	return s, s.makeLoops(o.threads)
}

// sync makes changes durable that were answered earlier than that.
func (s *server) sync() error {
	var failed error
	for _, db := range s.databases {
		if o := db.opened.Load(); o.info.Durable && !o.readOnly {
			// A store that was detached meanwhile is durable, or its user got an error.
			if err := o.Sync(context.Background()); !errors.Is(err, kvtree.Gone) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}
