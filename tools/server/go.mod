module kvtree/tools/server

go 1.23

require (
	github.com/spf13/pflag v1.0.6
	golang.org/x/sys v0.30.0
	kvtree v0.0.0
)

replace kvtree => ../../lib/go
