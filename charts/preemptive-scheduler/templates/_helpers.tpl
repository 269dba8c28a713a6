{{- define "preemptive-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Shorter than the limit for names, because suffixes are appended. */}}
{{- define "preemptive-scheduler.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "preemptive-scheduler.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- $full | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The lease; a scheduler that writes must not wait for one in shadow mode. */}}
{{- define "preemptive-scheduler.lease" -}}
{{- $name := include "preemptive-scheduler.fullname" . -}}
{{- $name }}{{ if and .Values.shadow.enabled (not (hasSuffix "-shadow" $name)) }}-shadow{{ end -}}
{{- end -}}

{{/* "true" if the pods have a recorder: in shadow mode there are no decisions to replay. */}}
{{- define "preemptive-scheduler.records" -}}
{{- and .Values.recorder.enabled (not .Values.shadow.enabled) -}}
{{- end -}}

{{- define "preemptive-scheduler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "preemptive-scheduler.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required if serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "preemptive-scheduler.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "preemptive-scheduler.labels" -}}
{{- $own := include "preemptive-scheduler.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" (default .Chart.AppVersion .Values.image.tag | trunc 63 | trimAll "-_.") -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- mergeOverwrite (deepCopy .Values.commonLabels) $own | toYaml -}}
{{- end -}}

{{/* The values with the name that the objects of the console have in their labels. */}}
{{- define "preemptive-scheduler.consoleValues" -}}
{{- $name := include "preemptive-scheduler.name" . | trunc 55 | trimSuffix "-" -}}
{{- mergeOverwrite (deepCopy .Values) (dict "nameOverride" (printf "%s-console" $name)) | toYaml -}}
{{- end -}}

{{/* Name, labels and annotations of an object. Takes a list: root, name, labels, annotations. */}}
{{- define "preemptive-scheduler.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 | quote }}
labels:
  {{- mergeOverwrite (deepCopy (index . 2)) (include "preemptive-scheduler.labels" $root | fromYaml) | toYaml | nindent 2 }}
{{- with mergeOverwrite (deepCopy $root.Values.commonAnnotations) (index . 3) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "preemptive-scheduler.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{/* The profiles, without the writes for which rbac.volumes and rbac.devices grant no permission. */}}
{{- define "preemptive-scheduler.profiles" -}}
{{- $rbac := .Values.rbac -}}
{{- $profiles := list -}}
{{- range deepCopy .Values.config.profiles -}}
{{- $entry := dict "name" "PreemptiveScheduler" "args" dict -}}
{{- $others := list -}}
{{- range .pluginConfig -}}
{{- if eq .name $entry.name }}{{ $entry = . }}{{ else }}{{ $others = append $others . }}{{ end -}}
{{- end -}}
{{- $args := default dict $entry.args -}}
{{- if not $rbac.volumes }}{{ $_ := set $args "bindVolumes" false }}{{ end -}}
{{- if not $rbac.devices }}{{ $_ := set $args "allocateDevices" false }}{{ end -}}
{{- $_ := set $entry "args" $args -}}
{{- $_ := set . "pluginConfig" (append $others $entry) -}}
{{- $profiles = append $profiles . -}}
{{- end -}}
{{- toYaml $profiles -}}
{{- end -}}

{{/*
Requests and limits of the container; `size` replaces the requests. The recording is on the disk of the
node, which its volume needs.
*/}}
{{- define "preemptive-scheduler.resources" -}}
{{- $resources := deepCopy (default dict .Values.resources) -}}
{{- with .Values.size -}}
{{- $_ := set $resources "requests" (get ($.Files.Get "sizes.yaml" | fromYaml) .) -}}
{{- end -}}
{{- if eq "true" (include "preemptive-scheduler.records" .) -}}
{{- $disk := dict "ephemeral-storage" (include "preemptive-scheduler.recordingVolume" .) -}}
{{- $resources = merge $resources (dict "requests" $disk) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* The configuration file: the value `config`, and the lease that the role names. */}}
{{- define "preemptive-scheduler.config" -}}
{{- $election := .Values.leaderElection -}}
{{- $lease := dict
      "leaderElect" $election.enabled
      "leaseDuration" $election.leaseDuration
      "renewDeadline" $election.renewDeadline
      "retryPeriod" $election.retryPeriod
      "resourceLock" "leases"
      "resourceName" (include "preemptive-scheduler.lease" .)
      "resourceNamespace" .Release.Namespace -}}
{{- $head := dict
      "apiVersion" "kubescheduler.config.k8s.io/v1"
      "kind" "KubeSchedulerConfiguration"
      "leaderElection" $lease -}}
{{- if not (and .Values.rbac.volumes .Values.rbac.devices) -}}
{{- $_ := set $head "profiles" (include "preemptive-scheduler.profiles" . | fromYamlArray) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $head | toYaml -}}
{{- end -}}

{{/* The annotation of the pods that holds the configuration file. */}}
{{- define "preemptive-scheduler.configAnnotation" -}}
preemptive-scheduler.io/config
{{- end -}}

{{/* Annotations of the pods. */}}
{{- define "preemptive-scheduler.podAnnotations" -}}
{{- $own := dict (include "preemptive-scheduler.configAnnotation" .) (include "preemptive-scheduler.config" .) -}}
{{- /* Otherwise the cluster autoscaler keeps a node for the sake of the recording. */ -}}
{{- if eq "true" (include "preemptive-scheduler.records" .) -}}
{{- $_ := set $own "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes" "recording" -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.commonAnnotations) .Values.podAnnotations $own | toYaml -}}
{{- end -}}

{{/*
"true" if the API server is to limit the scheduler's own writes. `helm template` without a cluster
knows no kinds, not even v1/Pod: then the API server counts as one of a supported version, which has it.
*/}}
{{- define "preemptive-scheduler.limitsOwnWrites" -}}
{{- $served := .Capabilities.APIVersions -}}
{{- $serves := or (not ($served.Has "v1/Pod")) ($served.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") -}}
{{- and .Values.admission.enabled $serves -}}
{{- end -}}

{{/* Secret with the serving certificate. If empty, the scheduler uses a self-signed one. */}}
{{- define "preemptive-scheduler.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled -}}
{{- include "preemptive-scheduler.fullname" . }}-tls
{{- else -}}
{{- .Values.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* Security context of the pod. On OpenShift the IDs come from the range of the namespace. */}}
{{- define "preemptive-scheduler.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext -}}
{{- if .Values.openshift.enabled -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* How Prometheus verifies the server. Takes a list: root, tlsConfig of the monitor. */}}
{{- define "preemptive-scheduler.monitorTls" -}}
{{- $root := index . 0 -}}
{{- $config := index . 1 -}}
{{- $secret := include "preemptive-scheduler.tlsSecret" $root -}}
{{- if $config -}}
{{- toYaml $config -}}
{{- else if $secret -}}
ca:
  secret:
    name: {{ $secret }}
    key: ca.crt
serverName: {{ include "preemptive-scheduler.fullname" $root }}.{{ $root.Release.Namespace }}.svc
{{- else -}}
insecureSkipVerify: true
{{- end -}}
{{- end -}}

{{/* CEL: whether the namespace of a pod has one of the names, or all of the labels. */}}
{{- define "preemptive-scheduler.namespaceMatches" -}}
{{- $parts := list -}}
{{- with .namespaces -}}
{{- $parts = append $parts (printf "request.namespace in %s" (toJson .)) -}}
{{- end -}}
{{- with .namespaceLabels -}}
{{- $labels := list -}}
{{- range $key, $value := . -}}
{{- $labels = append $labels (printf "(%s in variables.labels && variables.labels[%s] == %s)" (toJson $key) (toJson $key) (toJson $value)) -}}
{{- end -}}
{{- $parts = append $parts (printf "(%s)" (join " && " $labels)) -}}
{{- end -}}
({{ join " || " $parts }})
{{- end -}}

{{/* Version of the API of mutating admission policies: stable since Kubernetes 1.36, before off by default. */}}
{{- define "preemptive-scheduler.mutationApi" -}}
{{- if semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version -}}
admissionregistration.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}
admissionregistration.k8s.io/v1beta1
{{- else -}}
{{- fail "schedulerNameFor needs Kubernetes 1.36, or API servers with the feature gate MutatingAdmissionPolicy and the API admissionregistration.k8s.io/v1beta1" -}}
{{- end -}}
{{- end -}}

{{/* Converts a duration such as 1m30s to milliseconds, by adding it to a fixed date. */}}
{{- define "preemptive-scheduler.milliseconds" -}}
{{- $start := toDate "2006-01-02" "2001-01-01" -}}
{{- $end := dateModify . $start -}}
{{- $seconds := sub (int64 (unixEpoch $end)) (int64 (unixEpoch $start)) -}}
{{- add (mul $seconds 1000) (date ".000" $end | trimPrefix "." | trimPrefix "0" | trimPrefix "0" | int) -}}
{{- end -}}

{{/* The size of the volume of the recorder: a quarter more than the recording. */}}
{{- define "preemptive-scheduler.recordingVolume" -}}
{{- $size := .Values.recorder.size -}}
{{- $number := regexFind "^[0-9]+" $size | int64 -}}
{{- $mebibytes := ternary (mul 1024 $number) $number (hasSuffix "Gi" $size) -}}
{{- printf "%dMi" (add $mebibytes (div $mebibytes 4) 1) -}}
{{- end -}}
