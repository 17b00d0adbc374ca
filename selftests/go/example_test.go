// SPDX-License-Identifier: GPL-2.0

package bpf

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/cilium/ebpf"

	"kvtree"
)

// Documentation/go.rst shows this example. The program get() counts how often the key "k" has the
// value 0, and how often 1, in the first elements of its variable "bind".
func Example_newBPFMap() {
	ctx := context.Background()
	if err := kvtree.CreateStore("example-rules", kvtree.Settings{BPF: true}); err != nil {
		log.Fatal(err)
	}
	defer kvtree.DestroyStore("example-rules")
	store, err := kvtree.Open("example-rules", kvtree.ReadWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	one := binary.NativeEndian.AppendUint32(nil, 1)
	if _, err := store.Put(ctx, []byte("k"), one); err != nil {
		log.Fatal(err)
	}
	fd, err := store.NewBPFMap("store", kvtree.Read)
	if err != nil {
		log.Fatal(err)
	}
	bound, err := ebpf.NewMapFromFD(fd) // it now owns fd
	if err != nil {
		log.Fatal(err)
	}
	defer bound.Close()
	spec, err := ebpf.LoadCollectionSpec("../bpf/bpf_bind.bpf.o") // has BPF_KVT_STORE(store)
	if err != nil {
		log.Fatal(err)
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{"get": spec.Programs["get"]}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{".rodata.store": bound},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer collection.Close()
	if _, _, err := collection.Programs["get"].Test(make([]byte, 64)); err != nil {
		log.Fatal(err)
	}
	var found bind // as the variable is declared in the program
	if err := collection.Variables["bind"].Get(&found); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the program found:", found.Got)
	// Output: the program found: [0 1]
}
