{{- define "preemptive-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Shorter than a name may be, as suffixes follow. */}}
{{- define "preemptive-scheduler.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "preemptive-scheduler.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- $full | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "preemptive-scheduler.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed, because serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "preemptive-scheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "preemptive-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "preemptive-scheduler.labels" -}}
{{- $own := include "preemptive-scheduler.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- mergeOverwrite (deepCopy .Values.commonLabels) $own | toYaml -}}
{{- end -}}

{{/* Name, labels and annotations of an object. Takes a list: root, name, labels, annotations. */}}
{{- define "preemptive-scheduler.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
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

{{/* The configuration file: what the user wrote, with the lease that the rights are for. */}}
{{- define "preemptive-scheduler.config" -}}
{{- $election := .Values.leaderElection -}}
{{- $lease := dict
      "leaderElect" $election.enabled
      "leaseDuration" $election.leaseDuration
      "renewDeadline" $election.renewDeadline
      "retryPeriod" $election.retryPeriod
      "resourceLock" "leases"
      "resourceName" (include "preemptive-scheduler.fullname" .)
      "resourceNamespace" .Release.Namespace -}}
{{- $head := dict
      "apiVersion" "kubescheduler.config.k8s.io/v1"
      "kind" "KubeSchedulerConfiguration"
      "leaderElection" $lease -}}
{{- mergeOverwrite (deepCopy .Values.config) $head | toYaml -}}
{{- end -}}

{{/* Combinations that would be accepted, and would not do what was meant. */}}
{{- define "preemptive-scheduler.validate" -}}
{{- $values := .Values -}}
{{- if and (not $values.leaderElection.enabled) (gt (int $values.replicaCount) 1) -}}
{{- fail "replicaCount has to be 1 where leaderElection.enabled is false: several replicas would all schedule" -}}
{{- end -}}
{{- if and $values.podMonitor.enabled (not $values.podMonitor.authorization) (not $values.metrics.anonymous) -}}
{{- fail "podMonitor needs podMonitor.authorization or metrics.anonymous: without a token nobody may read /metrics" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled $values.podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor exclude each other: every number would be counted twice" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.service.create) -}}
{{- fail "serviceMonitor needs service.create; podMonitor does without" -}}
{{- end -}}
{{- with $values.podDisruptionBudget -}}
{{- if and (ne (toString .minAvailable) "") (ne (toString .maxUnavailable) "") -}}
{{- fail "podDisruptionBudget takes minAvailable or maxUnavailable, not both" -}}
{{- end -}}
{{- end -}}
{{- end -}}
