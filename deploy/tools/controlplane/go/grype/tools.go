//go:build tools

// Package tools pins the grype that deploy/tools/controlplane builds.
package tools

import (
	_ "github.com/anchore/grype/cmd/grype"
)
