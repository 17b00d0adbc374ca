// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// serveMetrics serves /metrics: the counters of the server and its stores, in Prometheus' text
// format.
func (s *server) serveMetrics(listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		s.writeMetrics(w)
	})
	web := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10}
	go web.Serve(listener)
}

func metric(w io.Writer, name, kind, help string, value any) {
	metricHead(w, name, kind, help)
	fmt.Fprintf(w, "%s %v\n", name, value)
}

func metricHead(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (s *server) writeMetrics(w io.Writer) {
	metric(w, "kvtree_server_clients", "gauge", "connected clients", s.connected())
	metric(w, "kvtree_server_connections_total", "counter", "connections accepted",
		s.counts.connections.Load())
	metric(w, "kvtree_server_rejected_total", "counter", "connections refused",
		s.counts.rejected.Load())
	metric(w, "kvtree_server_command_bytes", "gauge", "memory for long commands", s.input.now())
	metric(w, "kvtree_server_answer_bytes", "gauge", "memory for long answers", s.unread.now())
	metric(w, "kvtree_server_busy_total", "counter",
		"clients closed, and commands refused, because the clients together held too much memory", s.counts.busy.Load())
	metric(w, "kvtree_server_protocol_errors_total", "counter", "clients closed after protocol errors",
		s.counts.protocolErrors.Load())
	metric(w, "kvtree_server_batches_total", "counter", "system calls with queued commands",
		s.counts.batches.Load())
	metric(w, "kvtree_server_batch_operations_total", "counter", "operations in those calls",
		s.counts.operations.Load())
	metricHead(w, "kvtree_server_commands_total", "counter", "commands executed")
	for _, command := range commands {
		fmt.Fprintf(w, "kvtree_server_commands_total{command=%q} %d\n", strings.ToLower(command.name),
			command.calls.Load())
	}
	s.writeStoreMetrics(w)
}

// writeStoreMetrics writes each counter with its value in each store.
func (s *server) writeStoreMetrics(w io.Writer) {
	type sample struct {
		help, kind string
		lines      []string
	}
	samples := map[string]*sample{}
	var order []string
	for _, db := range s.databases {
		stats, err := db.opened.Load().Stats()
		if err != nil {
			continue
		}
		for _, stat := range stats {
			name, kind := "kvtree_"+stat.Name+"_total", "counter"
			if stat.Now {
				name, kind = "kvtree_"+stat.Name, "gauge"
			}
			if samples[name] == nil {
				samples[name] = &sample{help: stat.Text, kind: kind}
				order = append(order, name)
			}
			samples[name].lines = append(samples[name].lines,
				fmt.Sprintf("%s{store=%q} %d\n", name, db.name, stat.Value))
		}
	}
	for _, name := range order {
		metricHead(w, name, samples[name].kind, samples[name].help)
		for _, line := range samples[name].lines {
			io.WriteString(w, line)
		}
	}
}
