//go:build tools

// Package tools pins the containerd that deploy/tools/controlplane builds: with the Container Device Interface, which
// Debian's lacks.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
