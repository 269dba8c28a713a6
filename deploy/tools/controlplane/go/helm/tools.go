//go:build tools

// Package tools pins the helm that deploy/tools/controlplane builds.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
