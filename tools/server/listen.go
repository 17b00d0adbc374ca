// SPDX-License-Identifier: GPL-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// listeners returns the sockets passed by systemd and those of the options.
func (o *options) listeners(passed []net.Listener) ([]net.Listener, error) {
	listeners := passed
	for _, l := range listeners {
		if err := o.mayListen(l.Addr()); err != nil {
			return nil, err
		}
	}
	if o.unix == "" && o.listen == "" && len(listeners) == 0 {
		o.unix = defaultSocket
	}
	if o.unix != "" {
		l, err := listenUnix(o.unix, o.unixMode)
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
	}
	if o.listen != "" {
		l, err := net.Listen("tcp", o.listen)
		if err != nil {
			return nil, err
		}
		if err := o.mayListen(l.Addr()); err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// mayListen refuses TCP sockets without authentication: every user of the machine could connect.
// For other machines authentication is always required.
func (o *options) mayListen(addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || o.passwordFile != "" || o.tlsCA != "" || o.noPassword && tcp.IP.IsLoopback() {
		return nil
	}
	if o.noPassword {
		return fmt.Errorf("%s can be reached by other machines: --no-password is for loopback addresses", addr)
	}
	return fmt.Errorf("%s: every user could connect: give --password-file or --tls-ca, or, "+
		"for a loopback address, --no-password", addr)
}

// listenUnix replaces the socket of a server that is gone, but not of a running one, and no other
// file.
func listenUnix(path string, mode uint32) (net.Listener, error) {
	if len(path) > 107 {
		return nil, fmt.Errorf("%s: the path of a socket has at most 107 bytes", path)
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	mask := unix.Umask(int(0o777 &^ mode))
	defer unix.Umask(mask)
	return net.Listen("unix", path)
}

func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists, and is not a socket", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%s: another server uses it", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// tlsConfig returns nil for plain TCP.
func (o *options) tlsConfig() (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", o.tlsCert, o.tlsKey, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.tlsCA != "" {
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.tlsCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}
