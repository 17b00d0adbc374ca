module kvtree/selftests/go

go 1.23

require (
	github.com/cilium/ebpf v0.17.3
	golang.org/x/sys v0.30.0
	kvtree v0.0.0
)

replace kvtree => ../../lib/go
