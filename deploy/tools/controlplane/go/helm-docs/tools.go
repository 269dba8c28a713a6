//go:build tools

// Package tools pins the helm-docs that deploy/tools/controlplane builds.
package tools

import (
	_ "github.com/norwoodj/helm-docs/cmd/helm-docs"
)
