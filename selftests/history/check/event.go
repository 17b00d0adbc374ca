// SPDX-License-Identifier: GPL-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Operations, as in ../history.h.
const (
	opGet = iota
	opPut
	opCreate
	opCas
	opAdd
	opRemove
	opRemoveAt
	opCount
)

var opNames = [opCount]string{"get", "put", "create", "cas", "add", "remove", "remove at"}

// event is struct event of ../history.h.
type event struct {
	Call, Ret    uint64
	Expected     uint64
	Version      uint64
	Given, Found uint64
	Round        uint32
	Key          uint16
	Op           uint8
	Door         uint8
	Result       int32
	Worker       uint32
}

func (e *event) errno() syscall.Errno {
	return syscall.Errno(-e.Result)
}

func (e *event) String() string {
	out := "ok"
	if e.Result != 0 {
		out = e.errno().Error()
	}
	return fmt.Sprintf("%s key %d expected %d given %#x: %s version %d found %#x",
		opNames[e.Op], e.Key, e.Expected, e.Given, out, e.Version, e.Found)
}

// readEvents reads a file of ../history.
func readEvents(path string) ([]event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var events []event
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		var e event
		err := binary.Read(in, binary.LittleEndian, &e)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: event %d: %w", path, len(events), err)
		}
		if e.Op >= opCount || e.Call >= e.Ret {
			return nil, fmt.Errorf("%s: event %d is malformed: %+v", path, len(events), e)
		}
		events = append(events, e)
	}
}
