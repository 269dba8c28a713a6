//go:build tools

// Package tools pins the actionlint that deploy/tools/controlplane builds.
package tools

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
