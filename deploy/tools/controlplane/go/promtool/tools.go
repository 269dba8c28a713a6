//go:build tools

// Package tools pins the promtool that deploy/tools/controlplane builds, without service discovery for clouds.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
