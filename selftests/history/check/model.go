// SPDX-License-Identifier: GPL-2.0

package main

import (
	"fmt"
	"syscall"

	"github.com/anishathalye/porcupine"
)

// state is that of one key.  version is the last one given out, also when the key does
// not exist: versions grow over a removal.
type state struct {
	present bool
	value   uint64
	version uint64
}

// outcome returns which outcomes an answer allows.
type outcome int

const (
	known   outcome = iota
	maybe           // a change that may have taken place, or not: its disk has failed
	nothing         // has changed nothing, and says nothing
)

func (e *event) outcome() outcome {
	switch e.errno() {
	case syscall.EIO:
		if e.Op == opGet {
			return nothing
		}
		return maybe
	case syscall.EROFS, syscall.ENOSPC, syscall.EBUSY, syscall.EAGAIN, syscall.EDQUOT, syscall.ENOMEM, syscall.EMSGSIZE:
		return nothing
	}
	return known
}

// succeeded is the event as it was before its disk failed.
func (e *event) succeeded() *event {
	copy := *e
	copy.Result = 0
	return &copy
}

// The two lowest bits of a value say how long it is; only 0 can be added to.
func (s state) canAdd() bool {
	return !s.present || s.value%4 == 0
}

func (s state) current() uint64 {
	if s.present {
		return s.version
	}
	return 0
}

func (s state) number() uint64 {
	if s.present {
		return s.value
	}
	return 0
}

// refusal is the error that the operation meets in this state, or 0.
func refusal(s state, e *event) syscall.Errno {
	switch e.Op {
	case opGet, opRemove:
		if !s.present {
			return syscall.ENOENT
		}
	case opCreate:
		if s.present {
			return syscall.EEXIST
		}
	case opCas:
		if s.current() != e.Expected {
			return syscall.ECANCELED
		}
	case opRemoveAt:
		if !s.present {
			return syscall.ENOENT
		}
		if s.current() != e.Expected {
			return syscall.ECANCELED
		}
	case opAdd:
		if !s.canAdd() {
			return syscall.EINVAL
		}
	}
	return 0
}

// change is the state after the operation, which has made this version.
func change(s state, e *event, version uint64) state {
	switch e.Op {
	case opPut, opCreate, opCas:
		return state{true, e.Given, version}
	case opAdd:
		return state{true, s.number() + e.Given, version}
	case opRemove, opRemoveAt:
		return state{false, 0, s.version}
	}
	return s
}

// stepKnown returns the next state, and whether the answer is right.
func stepKnown(s state, e *event) (state, bool) {
	if err := refusal(s, e); err != 0 || e.Result != 0 {
		// What is there is told along with the refusal.
		tells := err == syscall.EEXIST || err == syscall.ECANCELED
		return s, err == e.errno() && (!tells || e.Version == s.current())
	}
	switch e.Op {
	case opGet:
		return s, e.Version == s.version && e.Found == s.value
	case opRemove, opRemoveAt:
		return change(s, e, 0), e.Version == s.version
	case opAdd:
		return change(s, e, e.Version), e.Version > s.version && e.Found == s.number()
	default:
		return change(s, e, e.Version), e.Version > s.version
	}
}

// stepMaybe returns the states after a change that a crash may have undone.
func stepMaybe(s state, e *event) []interface{} {
	after, right := stepKnown(s, e.succeeded())
	if !right {
		return []interface{}{s}
	}
	return []interface{}{s, after}
}

func step(before, input, _ interface{}) []interface{} {
	s, e := before.(state), input.(*event)

	if e.outcome() == maybe {
		return stepMaybe(s, e)
	}
	after, right := stepKnown(s, e)
	if !right {
		return nil
	}
	return []interface{}{after}
}

// model is the model of one key, without earlier operations.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{state{}} },
		Step: step,
		DescribeOperation: func(input, _ interface{}) string {
			return input.(*event).String()
		},
		DescribeState: func(s interface{}) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}
