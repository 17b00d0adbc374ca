// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

package kvtree

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Errors of this package, for errors.Is. These are errnos, and match those of io/fs as well:
// NotFound is fs.ErrNotExist, Exists is fs.ErrExist, AccessDenied and NotAllowed are
// fs.ErrPermission. Print the error itself, which says more than the constant.
const (
	NotFound     = unix.ENOENT       // no such key, store, device or file
	Exists       = unix.EEXIST       // the key exists, or a store of this name
	Changed      = unix.ECANCELED    // the key has another version: Error.Version
	Gone         = unix.ESTALE       // the store was destroyed or detached
	AccessDenied = unix.EACCES       // mode of /dev/kvtree or the store, or Open's access
	NotAllowed   = unix.EPERM        // it needs CAP_SYS_ADMIN
	Invalid      = unix.EINVAL       // an argument is out of its range
	TooLong      = unix.E2BIG        // a key, a value or a list of columns is too long
	NoRoom       = unix.EMSGSIZE     // the value is longer than its room: Error.Needed
	LimitReached = unix.EDQUOT       // the store's limit of bytes or keys
	Refused      = unix.EKEYREJECTED // the store's validator refused the value
	NotOffered   = unix.EOPNOTSUPP   // this store, device, module or kernel does not support it
	Full         = unix.ENOSPC       // the store's devices are full
	ReadOnly     = unix.EROFS        // the store is read-only
	Lost         = unix.EIO          // a change took effect, and will never be durable
	NotExecuted  = unix.EINPROGRESS  // an operation of a batch has not been executed
	NoEngine     = unix.ENOPKG       // the module of the store's engine cannot be loaded
	NoModule     = unix.ENODEV       // there is no /dev/kvtree, or a device is missing
)

// ErrClosed is the error of calls of a closed store.
var ErrClosed = fmt.Errorf("kvtree: the store is closed: %w", os.ErrClosed)

// An Error says what failed, and why. A call that failed has changed nothing, except after Lost,
// after its context ended (see the package's description), and in a Batch: each of its operations
// has its own result.
type Error struct {
	Op      string // the operation
	Key     []byte // its key, or nil
	Store   string // the store's name, or ""
	Err     error  // an errno, or a context's error
	Version uint64 // after Changed and Exists, the version found; 0: no such key
	Needed  int    // after NoRoom, the value's length in bytes
	columns int    // after NoRoom, the number of columns
	device  bool   // /dev/kvtree could not be opened
}

const shown = 80 // bytes of a key in a message

func (e *Error) Error() string {
	about := ""
	switch {
	case e.Key != nil && len(e.Key) > shown:
		about = fmt.Sprintf(" %q...", e.Key[:shown])
	case e.Key != nil:
		about = fmt.Sprintf(" %q", e.Key)
	case e.Store != "":
		about = " " + e.Store
	}
	what := describe(e.Err)
	if e.device {
		what = describeDevice(e.Err)
	}
	return "kvtree: " + e.Op + about + ": " + what
}

func (e *Error) Unwrap() error {
	return e.Err
}

var meaning = map[unix.Errno]string{
	NotFound:     "not found",
	Exists:       "it exists already",
	Changed:      "it has another version",
	Gone:         "the store was destroyed or detached",
	AccessDenied: "the store's owner and mode, or how it was opened, do not allow this",
	NotAllowed:   "this needs CAP_SYS_ADMIN",
	Invalid:      "an argument is out of its range",
	TooLong:      "too long: a key has at most 4096 bytes, a value 1 MiB in 256 columns",
	NoRoom:       "the value is longer than the room for it",
	LimitReached: "the store's limit is reached",
	Refused:      "the store's validator refuses this value",
	NotOffered:   "not offered by this kernel module or this store",
	Full:         "the store's devices are full",
	ReadOnly:     "the store is read-only",
	NotExecuted:  "it has not been executed",
	Lost:         "a device of the store failed",
	NoEngine:     "kvtree_bwtree.ko cannot be loaded: \"modprobe kvtree_bwtree\" says why",
	NoModule:     "one of the store's devices is missing",
	unix.ENOTTY:  "not a kvtree session, or a kernel module that is older than this program",
}

func describe(err error) string {
	if errno, ok := err.(unix.Errno); ok {
		if text, ok := meaning[errno]; ok {
			return text
		}
	}
	return err.Error()
}

// describeDevice says why /dev/kvtree cannot be opened. EACCES is for its mode, not the store's.
func describeDevice(err error) string {
	if err == NoModule {
		return "no /dev/kvtree: load the module (modprobe kvtree)"
	}
	return "/dev/kvtree: " + err.Error()
}
