{{/* Names, labels and what every pod has in common. Arguments are lists, the root first. */}}

{{/* What names begin with: the release, or what is left of a name that Services cannot have, with a digest. */}}
{{- define "editjudge.prefix" -}}
{{- if regexMatch "^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- $letters := .Release.Name | lower | replace "." "-" | printf "r-%s" | trunc 21 | trimSuffix "-" -}}
{{- printf "%s-%s" (regexReplaceAll "^r-([a-z])" $letters "${1}") (.Release.Name | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* (root, component) */}}
{{- define "editjudge.name" -}}
{{- printf "%s-%s" (include "editjudge.prefix" (index . 0)) (index . 1) -}}
{{- end -}}

{{/* (root, component) */}}
{{- define "editjudge.selector" -}}
app.kubernetes.io/name: editjudge
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Of pods: without versions, by which every release of the chart would replace them: (root, component, tier) */}}
{{- define "editjudge.podLabels" -}}
{{ include "editjudge.selector" . }}
editjudge/tier: {{ index . 2 }}
{{- end -}}

{{/* (root, component, tier) */}}
{{- define "editjudge.labels" -}}
{{- $root := index . 0 -}}
{{ include "editjudge.podLabels" . }}
app.kubernetes.io/part-of: editjudge
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* (root, component, tier) */}}
{{- define "editjudge.metadata" -}}
name: {{ include "editjudge.name" . }}
namespace: {{ (index . 0).Release.Namespace | quote }}
labels:
  {{- include "editjudge.labels" . | nindent 2 }}
{{- end -}}

{{/* (root, image), and of Triton its variant */}}
{{- define "editjudge.image" -}}
{{- $image := (index . 0).Values.images -}}
{{- range rest . -}}{{- $image = index $image . -}}{{- end -}}
{{- if not (and $image.repository $image.digest) -}}
{{- fail (printf "images.%s: give repository and digest (sha256:…); docs/howto/deploying.md says what it holds" (rest . | join ".")) -}}
{{- end -}}
image: {{ printf "%s@%s" $image.repository $image.digest }}
imagePullPolicy: IfNotPresent
{{- end -}}

{{- define "editjudge.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* {cpu, memory}, or (resources, GPUs, server) */}}
{{- define "editjudge.resources" -}}
{{- $args := . -}}
{{- if kindIs "map" . -}}{{- $args = list . 0 dict -}}{{- end -}}
{{- $gpus := index $args 1 -}}
{{- $server := index $args 2 -}}
resources:
  {{- range list "requests" "limits" }}
  {{ . }}:
    cpu: {{ (index $args 0).cpu | quote }}
    memory: {{ (index $args 0).memory }}
    {{- if and $gpus (not $server.gpuClaim) }}
    {{ $server.gpuResource | default "nvidia.com/gpu" | quote }}: {{ $gpus }}
    {{- end }}
  {{- end }}
  {{- if and $gpus $server.gpuClaim }}
  claims: [{name: gpu}]
  {{- end }}
{{- end -}}

{{/* A template of claims cannot be changed, so other devices are another one: (root, component, server, GPUs) */}}
{{- define "editjudge.gpuClaimName" -}}
{{- include "editjudge.name" . }}-{{ list (index . 2).gpuClaim (int (index . 3)) | toJson | sha256sum | trunc 8 -}}
{{- end -}}

{{/* GPUs by dynamic resource allocation, one claim for each pod: (root, component, tier, server, GPUs) */}}
{{- define "editjudge.gpuClaim" -}}
{{- $server := index . 3 -}}
{{- with and (index . 4) $server.gpuClaim }}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: {{ include "editjudge.gpuClaimName" (list (index $ 0) (index $ 1) $server (index $ 4)) }}
  namespace: {{ (index $ 0).Release.Namespace | quote }}
  labels:
    {{- include "editjudge.labels" (slice $ 0 3) | nindent 4 }}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: {{ .deviceClass | quote }}
          count: {{ index $ 4 }}
          {{- with .cel }}
          selectors: [{cel: {expression: {{ . | quote }}}}]
          {{- end }}
{{- end }}
{{- end -}}

{{/* How pods are replaced: (replicas, "surge" or "replace"). One that is replaced alone is replaced by Recreate, which is
     available when its pod is; with maxUnavailable 1 it would always be. */}}
{{- define "editjudge.strategy" -}}
{{- if and (eq (index . 1) "replace") (eq (toString (index . 0)) "1") -}}
strategy: {type: Recreate}
{{- else -}}
strategy:
  type: RollingUpdate
  rollingUpdate: {{ ternary (dict "maxSurge" 0 "maxUnavailable" 1) (dict "maxSurge" 1 "maxUnavailable" 0) (eq (index . 1) "replace") | toJson }}
{{- end }}
{{- end -}}

{{/* Left out where something else scales: two owners of one field are a conflict at every upgrade. */}}
{{- define "editjudge.replicas" -}}
{{- if ne (toString .) "elsewhere" -}}
replicas: {{ . }}
{{- end -}}
{{- end -}}

{{/* Seconds until a rollout that does not go on is told; while weights come none does: (root, seconds to start, whether it waits for weights) */}}
{{- define "editjudge.progress" -}}
{{- $root := index . 0 -}}
{{- $waits := and (index . 2) (include "editjudge.weightsJob" $root) -}}
progressDeadlineSeconds: {{ add 600 (int64 (index . 1)) (ternary $root.Values.weights.job.deadlineSeconds 0 (not (empty $waits)) | int64) }}
{{- end -}}

{{/* Ready, then wait until nobody sends any more calls, then end. */}}
{{- define "editjudge.pause" -}}
lifecycle:
  # Until no name server has it any more: an answer is good for 30 s in many clusters.
  preStop: {sleep: {seconds: 35}}
{{- end -}}

{{- define "editjudge.probe" -}}
periodSeconds: 10
timeoutSeconds: 5
{{- end -}}

{{- define "editjudge.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "editjudge.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "editjudge.selector" . | nindent 6 }}
{{- end -}}

{{/* ((root, component, tier), placed) */}}
{{- define "editjudge.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "editjudge.metadata" (index . 0) | nindent 2 }}
  {{- with (index . 1).accountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}

{{/* The claim that holds the weights. */}}
{{- define "editjudge.claim" -}}
{{- .Values.weights.claim.existing | default (include "editjudge.name" (list . "weights")) -}}
{{- end -}}

{{/* The size of the weights' claim, which is never less than it has: refuse what a claim that is there cannot become. */}}
{{- define "editjudge.claimSize" -}}
{{- $claim := .Values.weights.claim -}}
{{- $name := include "editjudge.claim" . -}}
{{- $size := $claim.size -}}
{{- with lookup "v1" "PersistentVolumeClaim" .Release.Namespace $name -}}
{{- $mend := ternary (printf "say %s" (join " or " .spec.accessModes)) "make a claim, name it in weights.claim.existing, and the Job fills it" (not (empty $claim.existing)) -}}
{{- if not (has $claim.accessMode .spec.accessModes) -}}
{{- fail (printf "weights.claim.accessMode: the claim %s is %s, and does not become %s: %s" $name (join ", " .spec.accessModes) $claim.accessMode $mend) -}}
{{- end -}}
{{- if and $claim.storageClass (not $claim.existing) (ne $claim.storageClass (.spec.storageClassName | default "")) -}}
{{- fail (printf "weights.claim.storageClass: the claim %s has %s, and does not come to %s: %s" $name .spec.storageClassName $claim.storageClass $mend) -}}
{{- end -}}
{{- $there := .spec.resources.requests.storage -}}
{{- if or (not (regexMatch "^[0-9]+[MGT]i$" $there)) (gt (include "editjudge.mib" $there | int64) (include "editjudge.mib" $size | int64)) -}}
{{- $size = $there -}}
{{- end -}}
{{- end -}}
{{- $size -}}
{{- end -}}

{{/* What says that a judge is whole. What a step of the user's copies may have one of its own, before it is. */}}
{{- define "editjudge.wholeMark" -}}
{{- with .Values.weights.job.copy -}}
{{- ternary (printf ".compared-%s" (toJson . | sha256sum | trunc 8)) ".compared" (and (not (empty .image.repository)) (not (empty (include "editjudge.weightsJob" $)))) -}}
{{- end -}}
{{- end -}}

{{/* "yes" where a Job brings the weights. */}}
{{- define "editjudge.weightsJob" -}}
{{- ternary "yes" "" (and .Values.weights.job.enabled (empty .Values.weights.image.repository) (not (empty (include "editjudge.weighty" .)))) -}}
{{- end -}}

{{/* The volume of the weights: an image, or a claim. */}}
{{- define "editjudge.weightsVolume" -}}
{{- with .Values.weights.image -}}
{{- if .repository -}}
- name: weights
  image: {reference: {{ printf "%s@%s" .repository (required "weights.image.digest: give the digest of the image (sha256:…)" .digest) | quote }}, pullPolicy: IfNotPresent}
{{- else -}}
# Read-only where it is mounted: to attach it so, beside the Job that writes, some drivers refuse.
- {name: weights, persistentVolumeClaim: {claimName: {{ include "editjudge.claim" $ | quote }}}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where servers read the weights. */}}
{{- define "editjudge.weightsMount" -}}
- {name: weights, mountPath: /weights, readOnly: true{{ with .Values.weights.image }}{{ if and .repository .path }}, subPath: {{ .path | quote }}{{ end }}{{ end }}}
{{- end -}}

{{/* What the chart knows of models: files/models.json is generated from the services. */}}
{{- define "editjudge.known" -}}
{{ .Files.Get "files/models.json" }}
{{- end -}}

{{/* Where the weights of a vLLM server lie, beneath the claim: (root, name, server) */}}
{{- define "editjudge.weights" -}}
{{- $server := index . 2 -}}
{{- if $server.entry -}}
{{- $known := include "editjudge.known" (index . 0) | fromJson -}}
{{- (index $known.weights $server.entry).folder -}}
{{- else -}}
{{- printf "judges/%s/%s" (index . 1) $server.source.revision -}}
{{- end -}}
{{- end -}}

{{/* Address of a server inside the cluster: (root, component, port) */}}
{{- define "editjudge.address" -}}
{{- printf "%s.%s.svc:%v" (include "editjudge.name" .) (index . 0).Release.Namespace (index . 2) -}}
{{- end -}}

{{/* The Secret with the front door's certificate. */}}
{{- define "editjudge.tlsSecret" -}}
{{- if .Values.front.certificate.issuer -}}
{{- include "editjudge.name" (list . "front-tls") -}}
{{- else -}}
{{- required "front.tlsSecret: name a Secret of type kubernetes.io/tls, or give front.certificate.issuer" .Values.front.tlsSecret -}}
{{- end -}}
{{- end -}}

{{/* A class of priority is the whole cluster's and cannot be changed, so its name has a digest: (root, tier) */}}
{{- define "editjudge.priority" -}}
{{- $root := index . 0 -}}
{{- $fixed := list $root.Release.Namespace $root.Release.Name (index $root.Values.priorityClasses (index . 1) | int64) -}}
{{- printf "editjudge-%s-%s" (include "editjudge.name" .) ($fixed | toJson | sha256sum | trunc 8) -}}
{{- end -}}

{{/* "yes" where anything that is served has weights. */}}
{{- define "editjudge.weighty" -}}
{{- $known := include "editjudge.known" . | fromJson -}}
{{- $weighty := not (empty .Values.vllm.servers) -}}
{{- range .Values.triton.servers -}}
{{- range $model, $_ := .models -}}
{{- $weighty = or $weighty (not (empty (index $known.models $model | default dict).entry)) -}}
{{- end -}}
{{- end -}}
{{- ternary "yes" "" $weighty -}}
{{- end -}}

{{/* An amount of memory or storage in MiB. */}}
{{- define "editjudge.mib" -}}
{{- mul (substr 0 (int (sub (len .) 2)) . | int) (get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) (substr (int (sub (len .) 2)) -1 .)) -}}
{{- end -}}

{{/* Who is asked, as JSON: what decides a verdict, and not how many or where they are. */}}
{{- define "editjudge.asked" -}}
{{- $asked := list -}}
{{- range $name, $server := .Values.triton.servers -}}
{{- $asked = append $asked (list $name $server.models) -}}
{{- end -}}
{{- range $name, $server := .Values.vllm.servers -}}
{{- if or $server.entry (eq $name $.Values.judge.vllm) -}}
{{- $asked = append $asked (pick $server "entry" "source" "protocol" | list $name) -}}
{{- end -}}
{{- end -}}
{{- append $asked (list .Values.judge.vllm (omit .Values.judge.hosted "secret" "key")) | toJson -}}
{{- end -}}

{{/* What of the chart and all values is in the pods of a Job, which cannot be changed. */}}
{{- define "editjudge.fixed" -}}
{{- list .Chart.Version .Values.pod .Values.imagePullSecrets (pick .Values.priorityClasses "create" "weights" "runs") (include "editjudge.claim" .) | toJson -}}
{{- end -}}

{{/* Refuse a judge whose name tells more parameters than its GPUs have room for: (name, server, GPUs) */}}
{{- define "editjudge.gpuMemory" -}}
{{- $server := index . 1 -}}
{{- $gpus := index . 2 -}}
{{- $repository := ($server.source | default dict).repository | default "" | lower -}}
{{- $parameters := 0.0 -}}
{{- range regexFindAll "[0-9]+([.][0-9]+)?b([^a-z0-9]|$)" $repository -1 -}}
{{- $parameters = maxf $parameters (regexFind "[0-9.]+" . | float64) -}}
{{- end -}}
{{- $bytes := 2.0 -}}
{{- if regexMatch "fp8|int8|w8a" $repository }}{{ $bytes = 1.0 }}{{ end -}}
{{- if regexMatch "awq|gptq|int4|4bit|fp4|w4a" $repository }}{{ $bytes = 0.5 }}{{ end -}}
{{- $each := $server.gpuMemoryGiB | default (regexFind "[0-9]+gb" ($server.gpuResource | default "") | trimSuffix "gb") | default 80 | int -}}
{{- $weights := mulf $parameters $bytes 0.9313 | ceil | int -}}
{{- $room := div (mul 7 $gpus $each) 10 -}}
{{- if and $gpus (gt $weights $room) (not (regexMatch "(^| )--quantization=" (join " " $server.arguments))) -}}
{{- fail (printf "vllm.servers.%s.gpus: the weights of %s take about %d GiB, and %d of %d GiB (gpuMemoryGiB) leave %d for weights: give more GPUs, or what each of yours has" (index . 0) $server.source.repository $weights $gpus $each $room) -}}
{{- end -}}
{{- end -}}

{{/* Refuse a claim for one node where servers take more GPUs than nodes have, and none is named: root */}}
{{- define "editjudge.gpusOfOneNode" -}}
{{- $gpus := 0 -}}
{{- $named := true -}}
{{- range $tier := list "triton" "vllm" -}}
{{- range (index $.Values $tier).servers -}}
{{- $each := ternary .gpus (ternary 1 .gpus (kindIs "invalid" .gpus)) (eq $tier "triton") -}}
{{- if and $each (not (contains "/mig-" (.gpuResource | default ""))) -}}
{{- $gpus = add $gpus (mul $each (max (.replicas | default 1) ((.scale | default dict).maxReplicas | default 1))) -}}
{{- $placed := include "editjudge.placed" (list $ .pod) | fromJson -}}
{{- $named = and $named (hasKey ($placed.nodeSelector | default dict) "kubernetes.io/hostname") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (gt (int $gpus) 8) (not $named) -}}
{{- fail (printf "weights.claim.accessMode: ReadWriteOnce keeps all servers on one node, and they take %d GPUs: use ReadWriteMany, or name a node that has them in pod.nodeSelector (kubernetes.io/hostname)" $gpus) -}}
{{- end -}}
{{- end -}}

{{/* "yes" where the front door stands between judging and the judge too: one name of several pods is one server to who
     asks, and the door sends calls with one source to one pod. */}}
{{- define "editjudge.inside" -}}
{{- $server := index .Values.vllm.servers .Values.judge.vllm | default dict -}}
{{- $several := or (not (empty $server.scale)) (ne (toString ($server.replicas | default 1)) "1") -}}
{{- ternary "yes" "" (and $several (eq .Values.front.kind "envoy") (eq ($server.protocol | default "http") "http")) -}}
{{- end -}}

{{/* Where judging asks, as editjudge.toml: the groups of Triton servers, and one judge. */}}
{{- define "editjudge.settings" -}}
{{- $root := . -}}
deadline = {{ .Values.judge.deadlineSeconds }}
connection_age = {{ .Values.connectionSeconds }}
{{- range $name, $server := .Values.triton.servers }}

[endpoints.{{ $name }}]
url = "grpc://{{ include "editjudge.address" (list $root (printf "triton-%s" $name) 8001) }}"
{{- end }}
{{- with .Values.judge.vllm }}
{{- $server := index $root.Values.vllm.servers . }}
{{- if not $server }}
{{- fail (printf "judge.vllm: there is no vllm.servers.%s" .) }}
{{- end }}
{{- if $server.entry }}
{{- fail (printf "judge.vllm: vllm.servers.%s is a specialist's; name one with a source" .) }}
{{- end }}
{{- $at := include "editjudge.address" (list $root (printf "vllm-%s" .) 8000) }}
{{- if include "editjudge.inside" $root }}
{{- $at = printf "%s/judges/%s" (include "editjudge.address" (list $root "front-inside" 8441)) . }}
{{- end }}

[judges.judge]
url = {{ ternary (printf "grpc://%s" $at) (printf "http://%s/v1" $at) (eq ($server.protocol | default "http") "grpc") | quote }}
model = {{ . | quote }}
send_images = true
{{- include "editjudge.price" $root }}
{{- end }}
{{- with .Values.judge.hosted }}
{{- if .model }}

[judges.judge]
{{ ternary "provider" "url" (empty .url) }} = {{ .url | default .provider | quote }}
model = {{ .model | quote }}
api_key = {file = {{ printf "/secrets/judge/%s" .key | quote }}}
send_images = true
{{- range $name, $value := .settings }}
{{ $name }} = {{ include "editjudge.toml" $value }}
{{- end }}
{{- include "editjudge.price" $root }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A value as TOML. */}}
{{- define "editjudge.toml" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}{{- $pairs = append $pairs (printf "%s = %s" (toJson $key) (include "editjudge.toml" $value)) -}}{{- end -}}
{{- printf "{%s}" (join ", " $pairs) -}}
{{- else if kindIs "slice" . -}}
{{- $all := list -}}
{{- range . -}}{{- $all = append $all (include "editjudge.toml" .) -}}{{- end -}}
{{- printf "[%s]" (join ", " $all) -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* The settings of a run: a hosted judge is asked by the Judge service, which alone has its key: (root, run) */}}
{{- define "editjudge.runSettings" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.judge.hosted.model -}}
[gateway]
url = "grpc://{{ include "editjudge.address" (list $root "judge" 8002) }}"
headers = { x-team = {{ printf "run-%s" (index . 1) | quote }} }
{{- else -}}
{{- include "editjudge.settings" $root -}}
{{- end -}}
{{- end -}}

{{/* Refuse arguments that the chart gives itself, since others go by them: (value, arguments, pattern) */}}
{{- define "editjudge.ownArguments" -}}
{{- range index . 1 -}}
{{- $name := regexFind "^[^=]*" . | replace "_" "-" -}}
{{- if regexMatch (index $ 2) $name -}}
{{- fail (printf "%s: %s is the chart's to say, since other objects go by it: leave it out" (index $ 0) $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "editjudge.price" -}}
{{- with .Values.judge.price }}
price = {{ include "editjudge.toml" . }}
{{- end }}
{{- end -}}
