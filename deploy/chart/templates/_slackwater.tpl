{{/* What several templates need. Everything that depends on Slackwater's configuration is read here. */}}

{{- define "slackwater.labels" -}}
app.kubernetes.io/name: slackwater
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "slackwater.schedulerName" -}}
{{ .Values.config.schedulerName | default "slackwater" }}
{{- end }}

{{/* The label by which agents and commands find the Pod. Agents must not find a shadow: it has another name. */}}
{{- define "slackwater.podName" -}}
{{ include "slackwater.schedulerName" . }}{{ if .Values.shadow }}-shadow{{ end }}
{{- end }}

{{- define "slackwater.image" -}}
{{- $tag := .image.tag | default .version -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}

{{/* The port of a listener: (dict "values" .Values "listener" "ops" "default" "127.0.0.1:10298"). */}}
{{- define "slackwater.port" -}}
{{ dig "listeners" .listener "address" .default .values.config | splitList ":" | last }}
{{- end }}

{{/* Not empty where agents reach their listener: it is on every interface if the policy or TLS guards it, and else stays on
loopback. */}}
{{- define "slackwater.agentsListen" -}}
{{- $tls := or .Values.certificates.agents.enabled (dig "listeners" "agents" "tls" nil .Values.config) -}}
{{- if and (not .Values.shadow) (or .Values.networkPolicy.enabled $tls) }}yes{{ end -}}
{{- end }}

{{/* The file as the service reads it: the configuration of the values, with the agents' address and the certificates that the
Pod mounts. */}}
{{- define "slackwater.configuration" -}}
{{- $config := deepCopy .Values.config -}}
{{- if include "slackwater.agentsListen" . -}}
{{- $config = mergeOverwrite (dict "listeners" (dict "agents" (dict "address" "0.0.0.0:10299"))) $config -}}
{{- end -}}
{{- if .Values.shadow -}}
{{- $files := dict "history" (dict "file" "/var/lib/slackwater/history.json") "report" (dict "file" "/var/lib/slackwater/report.ndjson") -}}
{{- $config = mergeOverwrite $files $config (dict "mode" "shadow") -}}
{{- end -}}
{{- range $listener := list "agents" "ops" -}}
{{- $certificate := index $.Values.certificates $listener -}}
{{- if $certificate.enabled -}}
{{- $folder := printf "/etc/slackwater-tls/%s" $listener -}}
{{- $tls := dict "certFile" (printf "%s/tls.crt" $folder) "keyFile" (printf "%s/tls.key" $folder) -}}
{{- if $certificate.clientCA -}}
{{- $_ := set $tls "clientCAFile" (printf "%s/ca.crt" $folder) -}}
{{- end -}}
{{- $config = mergeOverwrite $config (dict "listeners" (dict $listener (dict "tls" $tls))) -}}
{{- end -}}
{{- end -}}
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
{{ toYaml $config }}
{{- end }}

{{/* What of the configuration decides about roles, as JSON: the conditions of app/rbac.py. */}}
{{- define "slackwater.uses" -}}
{{- $config := .Values.config -}}
{{- $autoscaler := dig "autoscaler" "enabled" false $config -}}
{{- $slack := and (dig "featureGates" "ResourceSlack" true $config) (dig "autoscaler" "slack" "headroom" true $config) -}}
{{- $clusterapi := dig "autoscaler" "providers" "clusterapi" nil $config -}}
{{- $kwok := false -}}
{{- $named := not (kindIs "invalid" $clusterapi) -}}
{{- $karpenter := not (kindIs "invalid" (dig "autoscaler" "providers" "karpenter" nil $config)) -}}
{{- range (dig "autoscaler" "nodeGroups" list $config) -}}
{{- $provider := .provider | default "kwok" -}}
{{- if eq $provider "kwok" }}{{ $kwok = true }}{{ end -}}
{{- if eq $provider "clusterapi" }}{{ $named = true }}{{ end -}}
{{- if eq $provider "karpenter" }}{{ $karpenter = true }}{{ end -}}
{{- end -}}
{{- $elsewhere := dig "kubeconfig" "" ($clusterapi | default dict) -}}
{{- dict
  "autoscaler" $autoscaler
  "slack" (and $autoscaler $slack)
  "startTimeSLOs" (and (dig "featureGates" "ResourceSlack" true $config) (gt (len (dig "autoscaler" "slack" "startTimeSLOs" list $config)) 0))
  "kwok" (and $autoscaler $kwok)
  "clusterapi" (and $autoscaler $named (not $elsewhere))
  "karpenter" (and $autoscaler $karpenter)
  "history" (dig "history" "persist" true $config)
  "nodeUse" (dig "kube" "nodeUse" false $config)
  "leaderElection" (ne (dig "leaderElection" "mode" "none" $config) "none")
  | toJson -}}
{{- end }}

{{/* Who gets the rights: the one account of both containers. */}}
{{- define "slackwater.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ .Values.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* Values that contradict one another; what concerns one key alone is in the schema. */}}
{{- define "slackwater.check" -}}
{{- $ops := dig "listeners" "ops" "address" "127.0.0.1:10298" .Values.config -}}
{{- if or (hasPrefix "127." $ops) (hasPrefix "localhost:" $ops) (hasPrefix "[::1]" $ops) -}}
{{- fail (printf "config.listeners.ops.address: got %s, want an address that the kubelet's probes reach, such as 0.0.0.0:10298" $ops) -}}
{{- end -}}
{{- $mode := dig "leaderElection" "mode" "none" .Values.config -}}
{{- if and .Values.shadow (gt (int .Values.replicas) 1) -}}
{{- fail (printf "replicas: got %d, want 1 with shadow: true" (int .Values.replicas)) -}}
{{- end -}}
{{- if and .Values.shadow .Values.gate.enabled -}}
{{- fail "gate.enabled: got true, want false with shadow: true: a shadow opens no gate" -}}
{{- end -}}
{{- if and (not .Values.shadow) (eq (dig "mode" "serve" .Values.config) "shadow") -}}
{{- fail "config.mode: got shadow, want the value shadow: true, which gives the account fewer rights too" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (ne $mode "scheduler") -}}
{{- fail (printf "config.leaderElection.mode: got %s, want scheduler with replicas: %d: else each of them places pods" $mode (int .Values.replicas)) -}}
{{- end -}}
{{- if and .Values.readers .Values.networkPolicy.enabled (not .Values.networkPolicy.apiServer) -}}
{{- fail "networkPolicy.apiServer: got nothing, want with readers from where the API server reaches Pods, such as [{ipBlock: {cidr: 10.0.0.0/28}}]" -}}
{{- end -}}
{{- if and .Values.priorityClass.create (hasPrefix "system-" .Values.priorityClass.name) -}}
{{- fail (printf "priorityClass.name: got %s, want a name of your own where priorityClass.create is true" .Values.priorityClass.name) -}}
{{- end -}}
{{- if and .Values.certificates.certManager.enabled (not .Values.certificates.certManager.issuerRef.name) -}}
{{- fail "certificates.certManager.issuerRef.name: got nothing, want the name of an issuer" -}}
{{- end -}}
{{- end }}
