{{/* Refuses combinations of values that are valid each, but do not work together. */}}
{{- define "preemptive-scheduler.validate" -}}
{{- include "preemptive-scheduler.validateElection" . -}}
{{- include "preemptive-scheduler.validateProfiles" . -}}
{{- include "preemptive-scheduler.validateArgs" . -}}
{{- include "preemptive-scheduler.validateRecorder" . -}}
{{- include "preemptive-scheduler.validateMonitors" . -}}
{{- include "preemptive-scheduler.validateBudget" . -}}
{{- include "preemptive-scheduler.validateTls" . -}}
{{- include "preemptive-scheduler.validateNetworkPolicy" . -}}
{{- include "preemptive-scheduler.validatePodAdmission" . -}}
{{- range .Values.metrics.readers -}}
{{- if and (eq .kind "ServiceAccount") (not .namespace) -}}
{{- fail (printf "metrics.readers: the ServiceAccount %q needs a namespace" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The rules of the scheduler itself, which would exit with code 2. */}}
{{- define "preemptive-scheduler.validateElection" -}}
{{- $election := .Values.leaderElection -}}
{{- if and (not $election.enabled) (gt (int .Values.replicaCount) 1) -}}
{{- fail "replicaCount must be 1 if leaderElection.enabled is false: several replicas would all schedule" -}}
{{- end -}}
{{- $lease := include "preemptive-scheduler.milliseconds" $election.leaseDuration | int64 -}}
{{- $renew := include "preemptive-scheduler.milliseconds" $election.renewDeadline | int64 -}}
{{- $retry := include "preemptive-scheduler.milliseconds" $election.retryPeriod | int64 -}}
{{- if le $lease $renew -}}
{{- fail (printf "leaderElection.leaseDuration (%s) must be longer than leaderElection.renewDeadline (%s)" $election.leaseDuration $election.renewDeadline) -}}
{{- end -}}
{{- if le (mul 10 $renew) (mul 12 $retry) -}}
{{- fail (printf "leaderElection.renewDeadline (%s) must be longer than 1.2 times leaderElection.retryPeriod (%s)" $election.renewDeadline $election.retryPeriod) -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateProfiles" -}}
{{- range .Values.config.profiles -}}
{{- if eq .schedulerName "default-scheduler" -}}
{{- fail "config.profiles: schedulerName default-scheduler belongs to kube-scheduler; both would schedule every pod of the cluster" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags that have a value of their own, which also changes permissions, mounts or probes. */}}
{{- define "preemptive-scheduler.ownFlags" -}}
config: config
v: logging.verbosity
logging-format: logging.format
evict-only: evictOnly
reference: reference
authorization-always-allow-paths: metrics.anonymous
tls-cert-file: tls
tls-private-key-file: tls
recording-dir: recorder.enabled
recording-size: recorder.size
recording-retention: recorder.retention
leader-elect: leaderElection.enabled
leader-elect-lease-duration: leaderElection.leaseDuration
leader-elect-renew-deadline: leaderElection.renewDeadline
leader-elect-retry-period: leaderElection.retryPeriod
leader-elect-resource-lock: leaderElection
leader-elect-resource-name: fullnameOverride
leader-elect-resource-namespace: the namespace of the release
owner-deployment: fullnameOverride
secure-port: nothing, as probes and Service need port 10259
write-config-to: nothing, as the scheduler would end
{{- end -}}

{{/* Flags that are allowed in extraArgs. */}}
{{- define "preemptive-scheduler.moreFlags" -}}
- authentication-token-webhook-cache-ttl
- authorization-webhook-cache-authorized-ttl
- authorization-webhook-cache-unauthorized-ttl
- tls-cipher-suites
- tls-min-version
- bind-address
- compare-cache-period
- kubeconfig
{{- end -}}

{{- define "preemptive-scheduler.validateArgs" -}}
{{- $own := include "preemptive-scheduler.ownFlags" . | fromYaml -}}
{{- $more := include "preemptive-scheduler.moreFlags" . | fromYamlArray -}}
{{- range .Values.extraArgs -}}
{{- $flag := . | trimPrefix "-" | trimPrefix "-" | splitList "=" | first -}}
{{- with get $own $flag -}}
{{- fail (printf "extraArgs: --%s is not for extraArgs; use %s" $flag .) -}}
{{- end -}}
{{- if not (has $flag $more) -}}
{{- fail (printf "extraArgs: the scheduler has no flag --%s" $flag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateRecorder" -}}
{{- $retention := .Values.recorder.retention -}}
{{- if lt (include "preemptive-scheduler.milliseconds" $retention | int64) 60000 -}}
{{- fail (printf "recorder.retention (%s) must be at least 1m" $retention) -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateMonitors" -}}
{{- $values := .Values -}}
{{- if and $values.podMonitor.enabled (not $values.podMonitor.authorization) (not $values.metrics.anonymous) -}}
{{- fail "podMonitor needs podMonitor.authorization or metrics.anonymous: without a token /metrics answers 401" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled $values.podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor exclude each other: every sample would be counted twice" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.service.create) -}}
{{- fail "serviceMonitor needs service.create; podMonitor needs no Service" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.metrics.anonymous) (not $values.serviceMonitor.authorization) (or $values.openshift.enabled (not $values.serviceMonitor.bearerTokenFile)) -}}
{{- fail "serviceMonitor needs serviceMonitor.authorization or metrics.anonymous: on OpenShift, and without bearerTokenFile, Prometheus has no other token" -}}
{{- end -}}
{{- range $key := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := get $values $key -}}
{{- if and $monitor.enabled (not $values.metrics.anonymous) (not $monitor.tlsConfig) (not (include "preemptive-scheduler.tlsSecret" $)) -}}
{{- fail (printf "%s would send the token of Prometheus to a server that it cannot verify: set tls.certManager.enabled, tls.existingSecret or metrics.anonymous, or accept it with %s.tlsConfig.insecureSkipVerify" $key $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateBudget" -}}
{{- $replicas := int .Values.replicaCount -}}
{{- with .Values.podDisruptionBudget -}}
{{- $least := toString .minAvailable -}}
{{- if and (ne $least "") (ne (toString .maxUnavailable) "") -}}
{{- fail "podDisruptionBudget takes minAvailable or maxUnavailable, not both" -}}
{{- end -}}
{{- if and .create (gt $replicas 1) (ne $least "") -}}
{{- $whole := ternary (eq (trimSuffix "%" $least | int) 100) (ge (int $least) $replicas) (hasSuffix "%" $least) -}}
{{- if $whole -}}
{{- fail (printf "podDisruptionBudget.minAvailable %s of %d replicas allows no eviction: draining a node would never end" $least $replicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateTls" -}}
{{- with .Values.tls -}}
{{- if and .certManager.enabled .existingSecret -}}
{{- fail "tls takes existingSecret or certManager, not both" -}}
{{- end -}}
{{- if and .certManager.enabled (not .certManager.issuerRef.name) -}}
{{- fail "tls.certManager needs issuerRef.name" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateNetworkPolicy" -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.apiServerCIDRs) -}}
{{- fail "networkPolicy needs apiServerCIDRs: `kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes` and `kubectl get service kubernetes -n default` show the addresses; 0.0.0.0/0 allows any" -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validatePodAdmission" -}}
{{- with .Values.podAdmission -}}
{{- if and .enabled (not .namespaces) (not .namespaceLabels) (not .priorityClasses) -}}
{{- fail "podAdmission restricts nothing: set namespaces, namespaceLabels or priorityClasses" -}}
{{- end -}}
{{- range .priorityClasses -}}
{{- if not (or .namespaces .namespaceLabels) -}}
{{- fail (printf "podAdmission.priorityClasses: %s needs namespaces or namespaceLabels" (join ", " .names)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
