{{/* Refuses combinations of values that are valid each, but do not work together. */}}
{{- define "preemptive-scheduler.validate" -}}
{{- include "preemptive-scheduler.validateElection" . -}}
{{- include "preemptive-scheduler.validateProfiles" . -}}
{{- include "preemptive-scheduler.validateConfig" . -}}
{{- include "preemptive-scheduler.validateArgs" . -}}
{{- include "preemptive-scheduler.validateRecorder" . -}}
{{- include "preemptive-scheduler.validateMonitors" . -}}
{{- include "preemptive-scheduler.validateBudget" . -}}
{{- include "preemptive-scheduler.validateTls" . -}}
{{- include "preemptive-scheduler.validateNetworkPolicy" . -}}
{{- include "preemptive-scheduler.validatePodAdmission" . -}}
{{- include "preemptive-scheduler.validateSchedulerName" . -}}
{{- include "preemptive-scheduler.validatePods" . -}}
{{- include "preemptive-scheduler.validateResources" . -}}
{{- include "preemptive-scheduler.validateNames" . -}}
{{- include "preemptive-scheduler.validateShadow" . -}}
{{- include "preemptive-scheduler.validateConsole" . -}}
{{- end -}}

{{- define "preemptive-scheduler.validateConsole" -}}
{{- with .Values.console -}}
{{- if .enabled -}}
{{- if not .url -}}
{{- fail "console.url is required if console.enabled is true: browsers keep the session for that address only, as https://console.example.com" -}}
{{- end -}}
{{- if and (not .scheduler.insecureSkipVerify) (not (include "preemptive-scheduler.tlsSecret" $)) -}}
{{- fail "console would send the tokens of its users to a server that it cannot verify: set tls.certManager.enabled or tls.existingSecret, or accept it with console.scheduler.insecureSkipVerify" -}}
{{- end -}}
{{- if and .ingress.enabled (not (hasPrefix "https://" .url)) -}}
{{- fail (printf "console.ingress: console.url must begin with https://, not %s: browsers keep the session for https only" .url) -}}
{{- end -}}
{{- if and .ingress.enabled (regexMatch "//[0-9.]+(:|$)" .url) -}}
{{- fail (printf "console.ingress: console.url must have a name, not an address as %s: an Ingress is for names" .url) -}}
{{- end -}}
{{- include "preemptive-scheduler.validateQuantities" (list "console.resources" .resources) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateShadow" -}}
{{- if .Values.shadow.enabled -}}
{{- range $rule := .Values.rbac.extraRules -}}
{{- range without $rule.verbs "get" "list" "watch" -}}
{{- fail (printf "rbac.extraRules: the verb %s writes, and nothing writes in shadow mode; leave it out, or set shadow.enabled to false" .) -}}
{{- end -}}
{{- end -}}
{{- if .Values.schedulerNameFor.namespaceSelector -}}
{{- fail "schedulerNameFor: nobody would schedule these pods in shadow mode; leave it out, or set shadow.enabled to false" -}}
{{- end -}}
{{- $profiles := list -}}
{{- range .Values.config.profiles -}}
{{- $profiles = append $profiles .schedulerName -}}
{{- end -}}
{{- range .Values.shadow.schedulers -}}
{{- if and (gt (len $profiles) 1) (not (has . $profiles)) -}}
{{- fail (printf "shadow.schedulers: config has several profiles, and none is named %s; name one of them so, or keep a single profile" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateNames" -}}
{{- $names := dict "config.profiles" list "priorityClasses" list "preemptionPolicies" list -}}
{{- range .Values.config.profiles -}}
{{- $_ := set $names "config.profiles" (append (get $names "config.profiles") .schedulerName) -}}
{{- end -}}
{{- range $list := list "priorityClasses" "preemptionPolicies" -}}
{{- range get $.Values $list -}}
{{- $_ := set $names $list (append (get $names $list) .name) -}}
{{- end -}}
{{- end -}}
{{- range $list, $given := $names -}}
{{- range $index, $name := $given -}}
{{- if has $name (slice $given 0 $index) -}}
{{- fail (printf "%s: %s is there twice; every name must be given once" $list $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $defaults := list -}}
{{- range .Values.priorityClasses -}}
{{- if hasPrefix "system-" .name -}}
{{- fail (printf "priorityClasses: %s: names that begin with system- belong to Kubernetes; choose another" .name) -}}
{{- end -}}
{{- if .globalDefault -}}
{{- $defaults = append $defaults .name -}}
{{- end -}}
{{- end -}}
{{- if gt (len $defaults) 1 -}}
{{- fail (printf "priorityClasses: %s: only one of them can be the globalDefault" (join ", " $defaults)) -}}
{{- end -}}
{{- range $list, $subjects := dict "metrics.readers" .Values.metrics.readers "api.viewers" .Values.api.viewers -}}
{{- range $subjects -}}
{{- if and (eq .kind "ServiceAccount") (not .namespace) -}}
{{- fail (printf "%s: the ServiceAccount %q needs a namespace" $list .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validatePods" -}}
{{- range $probe := list "startupProbe" "livenessProbe" "readinessProbe" -}}
{{- if not (get $.Values $probe) -}}
{{- fail (printf "%s cannot be left out; raise its failureThreshold to be more patient" $probe) -}}
{{- end -}}
{{- end -}}
{{- with .Values.podSecurityContext -}}
{{- if and .runAsNonRoot (eq (toString .runAsUser) "0") -}}
{{- fail "podSecurityContext: the kubelet starts no container with runAsUser 0 and runAsNonRoot; set another user" -}}
{{- end -}}
{{- end -}}
{{- if .Values.resourceQuota.create -}}
{{- $least := add1 .Values.replicaCount -}}
{{- if and .Values.resourceQuota.pods (lt (int64 .Values.resourceQuota.pods) $least) -}}
{{- fail (printf "resourceQuota.pods must be at least %d: a rolling update needs one pod more than replicaCount" $least) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A quantity of CPU or memory in thousandths. Takes a list: name of the value, quantity. */}}
{{- define "preemptive-scheduler.milli" -}}
{{- $name := index . 0 -}}
{{- $text := index . 1 -}}
{{- if not (kindIs "string" $text) -}}
{{- $text = printf "%f" (float64 $text) -}}
{{- end -}}
{{- $units := dict "m" 1 "" 1e3 "k" 1e6 "M" 1e9 "G" 1e12 "T" 1e15 "Ki" 1024e3 "Mi" 1048576e3 "Gi" 1073741824e3 "Ti" 1099511627776e3 -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?([eE][0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- if not (and $number (hasKey $units $unit)) -}}
{{- fail (printf "%s: %s is no quantity; write it as 500m or 256Mi" $name $text) -}}
{{- end -}}
{{- mulf (float64 $number) (get $units $unit) | int64 -}}
{{- end -}}

{{- define "preemptive-scheduler.validateResources" -}}
{{- include "preemptive-scheduler.validateQuantities" (list "resources" (include "preemptive-scheduler.resources" . | fromYaml)) -}}
{{- end -}}

{{/* The resources of a container, with the name of their value. */}}
{{- define "preemptive-scheduler.validateQuantities" -}}
{{- $value := first . -}}
{{- $resources := last . -}}
{{- $requests := $resources.requests | default dict -}}
{{- $limits := $resources.limits | default dict -}}
{{- range $name := list "cpu" "memory" -}}
{{- $request := get $requests $name | default "0" -}}
{{- $asked := include "preemptive-scheduler.milli" (list (printf "%s.requests.%s" $value $name) $request) | int64 -}}
{{- if hasKey $limits $name -}}
{{- $limit := get $limits $name -}}
{{- $allowed := include "preemptive-scheduler.milli" (list (printf "%s.limits.%s" $value $name) $limit) | int64 -}}
{{- if gt $asked $allowed -}}
{{- fail (printf "%s.limits.%s (%v) must not be less than the request (%v)" $value $name $limit $request) -}}
{{- end -}}
{{- if and (eq $name "memory") (lt $allowed (int64 134217728000)) -}}
{{- fail (printf "%s.limits.memory (%v) must be at least 128Mi: with less, it is killed before it has listed a small cluster" $value $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The rules of the scheduler itself, which would exit with code 2. */}}
{{- define "preemptive-scheduler.validateElection" -}}
{{- $election := .Values.leaderElection -}}
{{- if and (not $election.enabled) (gt (int .Values.replicaCount) 1) -}}
{{- fail "replicaCount must be 1 if leaderElection.enabled is false: several replicas would all schedule" -}}
{{- end -}}
{{- if and (not $election.enabled) (eq (toString .Values.strategy.type) "RollingUpdate") -}}
{{- fail "strategy.type must be Recreate if leaderElection.enabled is false: old and new pod would both schedule" -}}
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

{{/* The configuration is an annotation of the pods. An object holds 256 KiB of annotations, of which some
are left for those that admission and network plugins add. */}}
{{- define "preemptive-scheduler.validateConfig" -}}
{{- $size := 0 -}}
{{- range $key, $text := include "preemptive-scheduler.podAnnotations" . | fromYaml -}}
{{- $size = add $size (len $key) (len $text) -}}
{{- end -}}
{{- if gt $size 245760 -}}
{{- fail (printf "config has %d bytes together with commonAnnotations and podAnnotations; the annotations of a pod hold 245760 (240 KiB): shorten the longest" $size) -}}
{{- end -}}
{{- range .Values.config.extenders -}}
{{- if (.tlsConfig | default dict).keyData -}}
{{- fail (printf "config.extenders: the key of %s would be readable for everybody who may read pods; mount a Secret with extraVolumes and extraVolumeMounts, and set tlsConfig.keyFile" .urlPrefix) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags that have a value of their own, which also changes permissions, mounts or probes. */}}
{{- define "preemptive-scheduler.ownFlags" -}}
config: config
v: logging.verbosity
logging-format: logging.format
evict-only: evictOnly
shadow: shadow
reference: reference
reference-change: referenceChange
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
{{- if regexMatch "^--?bind-address=(127[.]|::1$|localhost$)" . -}}
{{- fail (printf "extraArgs: %s: the kubelet could not reach the probes, and would restart the pods again and again" .) -}}
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
{{- /* Kubernetes rounds shares up. */ -}}
{{- $share := div (add (mul (trimSuffix "%" $least | int) $replicas) 99) 100 -}}
{{- if ge (ternary $share (int64 $least) (hasSuffix "%" $least)) (int64 $replicas) -}}
{{- fail (printf "podDisruptionBudget.minAvailable %s of %d replicas allows no eviction, so draining a node would never end: give a number below %d" $least $replicas $replicas) -}}
{{- end -}}
{{- end -}}
{{- if and .create (gt $replicas 1) (has (toString .maxUnavailable) (list "0" "0%")) -}}
{{- fail (printf "podDisruptionBudget.maxUnavailable %v allows no eviction, so draining a node would never end: give at least 1" .maxUnavailable) -}}
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
{{- with .certManager -}}
{{- /* 90 days are the default of cert-manager. */ -}}
{{- $duration := default "2160h" .duration -}}
{{- if and .enabled .renewBefore (ge (include "preemptive-scheduler.milliseconds" .renewBefore | int64) (include "preemptive-scheduler.milliseconds" $duration | int64)) -}}
{{- fail (printf "tls.certManager.renewBefore (%s) must be shorter than duration (%s)" .renewBefore $duration) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateSchedulerName" -}}
{{- with .Values.schedulerNameFor.schedulerName -}}
{{- $profiles := list -}}
{{- range $.Values.config.profiles -}}
{{- $profiles = append $profiles .schedulerName -}}
{{- end -}}
{{- if not (has . $profiles) -}}
{{- fail (printf "schedulerNameFor.schedulerName: %s is none of config.profiles (%s)" . (join ", " $profiles)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.validateNetworkPolicy" -}}
{{- with .Values.networkPolicy -}}
{{- if and (eq .flavor "cilium") (or .apiServerCIDRs .apiServerPortsOnly) -}}
{{- fail "networkPolicy.flavor cilium knows where the API server is; remove apiServerCIDRs and apiServerPortsOnly" -}}
{{- end -}}
{{- if and .apiServerCIDRs .apiServerPortsOnly -}}
{{- fail "networkPolicy takes apiServerCIDRs or apiServerPortsOnly, not both" -}}
{{- end -}}
{{- if and .enabled (eq .flavor "kubernetes") (not .apiServerCIDRs) (not .apiServerPortsOnly) -}}
{{- fail "networkPolicy needs apiServerCIDRs: `kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes` and `kubectl get service kubernetes -n default` show the addresses; where they change, set flavor: cilium or apiServerPortsOnly" -}}
{{- end -}}
{{- end -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])" -}}
{{- $four := printf "%s([.]%s){3}/(3[0-2]|[12]?[0-9])" $byte $byte -}}
{{- $six := "[0-9a-fA-F:]*:[0-9a-fA-F:.]*/(12[0-8]|1[01][0-9]|[1-9]?[0-9])" -}}
{{- range .Values.networkPolicy.apiServerCIDRs -}}
{{- if not (regexMatch (printf "^(%s|%s)$" $four $six) .) -}}
{{- fail (printf "networkPolicy.apiServerCIDRs: %s is no range of addresses; write it as 10.0.0.1/32 or fd00::1/128" .) -}}
{{- end -}}
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
