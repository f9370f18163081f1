{{/* What a platform team says of pods: `pod` of the release, and of one component over it. */}}

{{/* JSON of both together; lists are joined, of all else the component's holds: (root, pod) */}}
{{- define "editjudge.placed" -}}
{{- $all := (index . 0).Values.pod -}}
{{- $own := index . 1 | default dict -}}
{{- $placed := mergeOverwrite (deepCopy $all) (deepCopy $own) -}}
{{- range list "envFrom" "tolerations" "volumes" "volumeMounts" -}}
{{- $_ := set $placed . (concat (index $all . | default list) (index $own . | default list) | uniq) -}}
{{- end -}}
{{- $placed | toJson -}}
{{- end -}}

{{/* "yes" where all that mount the weights have to be on one node. */}}
{{- define "editjudge.onOneNode" -}}
{{- ternary "yes" "" (and (empty .Values.weights.image.repository) (eq .Values.weights.claim.accessMode "ReadWriteOnce")) -}}
{{- end -}}

{{/* JSON: where the Job of the weights runs; with a claim for one node that is where all its servers do. */}}
{{- define "editjudge.weightsPlaced" -}}
{{- $root := . -}}
{{- $placed := include "editjudge.placed" (list . .Values.weights.job.pod) | fromJson -}}
{{- if include "editjudge.onOneNode" . -}}
{{- $places := dict -}}
{{- range $tier, $gpus := dict "triton" 0 "vllm" 1 -}}
{{- range $name, $server := (index $root.Values $tier).servers -}}
{{- $theirs := include "editjudge.placed" (list $root $server.pod) | fromJson -}}
{{- $_ := set $places (pick $theirs "nodeSelector" | toJson) $theirs.nodeSelector -}}
{{- $gpus := ternary $gpus (int $server.gpus) (kindIs "invalid" $server.gpus) -}}
{{- $_ := set $placed "tolerations" (concat $placed.tolerations $theirs.tolerations (include "editjudge.gpuTolerations" (set (deepCopy $server) "gpus" $gpus) | fromJsonArray) | uniq) -}}
{{- end -}}
{{- end -}}
{{- with (.Values.weights.job.pod).nodeSelector -}}
{{- $_ := set $places (pick $placed "nodeSelector" | toJson) . -}}
{{- end -}}
{{- if gt (len $places) 1 -}}
{{- fail (printf "weights.claim.accessMode: ReadWriteOnce is for one node, and pods that mount the claim have different nodeSelectors (%s): give all the same one, or a claim that is ReadWriteMany" (keys $places | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $_ := set $placed "nodeSelector" (values $places | first) -}}
{{- end -}}
{{- $placed | toJson -}}
{{- end -}}

{{/* The port of an address; of none that of HTTPS. */}}
{{- define "editjudge.port" -}}
{{- $host := (urlParse .).host -}}
{{- contains ":" $host | ternary (splitList ":" $host | last) (hasPrefix "http:" . | ternary 80 443) -}}
{{- end -}}

{{/* JSON: the ports of the proxies through which pods go out; refuse those that calls from pod to pod would go through: placed */}}
{{- define "editjudge.proxyPorts" -}}
{{- $env := .env | default dict -}}
{{- $ports := list -}}
{{- range $name, $proxy := $env -}}
{{- if and $proxy (kindIs "string" $proxy) (regexMatch "(?i)^(all|grpc|https?)_proxy$" $name) -}}
{{- $ports = append $ports (contains "://" $proxy | ternary $proxy (printf "http://%s" $proxy) | include "editjudge.port" | int) -}}
{{- end -}}
{{- end -}}
{{- $beside := false -}}
{{- range $name, $hosts := $env -}}
{{- if regexMatch "(?i)^no_proxy$" $name -}}
{{- $beside = or (kindIs "map" $hosts) (regexMatch "(^|[, ])([.]?svc|[*])([, ]|$)" $hosts) -}}
{{- end -}}
{{- end -}}
{{- if and $ports (not $beside) -}}
{{- fail "pod.env: it names a proxy, and calls from pod to pod would go through it: say NO_PROXY with .svc" -}}
{{- end -}}
{{- $ports | toJson -}}
{{- end -}}

{{/* The metadata of pods: ((root, component, tier), placed, annotations of ours) */}}
{{- define "editjudge.podMetadata" -}}
{{- $placed := index . 1 -}}
labels:
  {{- include "editjudge.podLabels" (index . 0) | nindent 2 }}
  {{- with $placed.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (index . 2) ($placed.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The end of a container's `env`. */}}
{{- define "editjudge.env" -}}
{{- range $name, $value := .env }}
        - {{ ternary $value (dict "value" $value) (kindIs "map" $value) | merge (dict "name" $name) | toJson }}
{{- end }}
{{- end -}}

{{/* The end of a container's `volumeMounts`, and its `envFrom`. */}}
{{- define "editjudge.mounts" -}}
{{- range .volumeMounts }}
        - {{ toJson . }}
{{- end }}
{{- with .envFrom }}
        envFrom: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* The end of a pod's `volumes`. */}}
{{- define "editjudge.volumes" -}}
{{- range .volumes }}
      - {{ toJson . }}
{{- end }}
{{- end -}}

{{/* JSON: nodes with parts of GPUs (nvidia.com/mig-1g.10gb) are tainted with the name of whole ones, or with theirs. */}}
{{- define "editjudge.gpuTolerations" -}}
{{- $tolerations := list -}}
{{- if .gpus -}}
{{- $resource := .gpuResource | default "nvidia.com/gpu" -}}
{{- range list $resource (printf "%s/gpu" (splitList "/" $resource | first)) | uniq -}}
{{- $tolerations = append $tolerations (dict "key" . "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- end -}}
{{- $tolerations | toJson -}}
{{- end -}}

{{/* All else of pods: ((root, component, tier), priority, placed, server or {}, seconds until killed) */}}
{{- define "editjudge.pod" -}}
{{- $args := index . 0 -}}
{{- $root := index $args 0 -}}
{{- $tier := index . 1 -}}
{{- $placed := index . 2 -}}
{{- $_ := include "editjudge.proxyPorts" $placed -}}
{{- $volumes := list -}}
{{- range $placed.volumes }}{{ $volumes = append $volumes .name }}{{ end -}}
{{- $folders := list -}}
{{- range $placed.volumeMounts -}}
{{- $folders = append $folders (trimSuffix "/" .mountPath) -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "pod.volumeMounts: there is no volume %s for %s in pod.volumes" .name .mountPath) -}}
{{- end -}}
{{- end -}}
{{- if or (ne (len $volumes) (len (uniq $volumes))) (ne (len $folders) (len (uniq $folders))) -}}
{{- fail (printf "pod.volumes, pod.volumeMounts: a name or folder is there twice (%s); those of a component come beside those of the release" (concat $volumes $folders | join ", ")) -}}
{{- end -}}
{{- $server := index . 3 -}}
{{- if and (gt (int $server.gpus) 1) (contains "/mig-" ($server.gpuResource | default "")) -}}
{{- fail (printf "%s.gpus: %d of %s, and a process sees one part of a GPU: give 1, and more replicas" (regexReplaceAll "^(triton|vllm)-" (index $args 1) "${1}.servers.") (int $server.gpus) $server.gpuResource) -}}
{{- end -}}
serviceAccountName: {{ include "editjudge.name" $args }}
automountServiceAccountToken: false
# Variables named after Services would be taken for settings of ours and of vLLM.
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
- name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- if $placed.priorityClass }}
priorityClassName: {{ $placed.priorityClass | quote }}
{{- else if $root.Values.priorityClasses.create }}
priorityClassName: {{ include "editjudge.priority" (list $root $tier) }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if ne ($placed.userIds | default "chart") "cluster" }}
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
terminationGracePeriodSeconds: {{ index . 4 }}
{{- if and $server.gpus $server.gpuClaim }}
resourceClaims:
- {name: gpu, resourceClaimTemplateName: {{ include "editjudge.gpuClaimName" (list $root (index $args 1) $server $server.gpus) }}}
{{- end }}
{{- range $field, $value := dict "runtimeClassName" $placed.runtimeClass "schedulerName" $placed.scheduler }}
{{- with $value }}
{{ $field }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- $affinity := deepCopy ($placed.affinity | default dict) }}
{{- if and (include "editjudge.onOneNode" $root) (has (index $args 2) (list "triton" "vllm" "weights")) }}
{{- /* Elsewhere the claim of one node would not be mounted, and the pod would wait without a reason. */}}
{{- $mounting := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict
  "matchLabels" (pick (include "editjudge.selector" $args | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance")
  "matchExpressions" (list (dict "key" "editjudge/tier" "operator" "In" "values" (list "triton" "vllm" "weights")))) }}
{{- $beside := $affinity.podAffinity | default dict }}
{{- $all := append ($beside.requiredDuringSchedulingIgnoredDuringExecution | default list) $mounting }}
{{- $_ := set $affinity "podAffinity" (set $beside "requiredDuringSchedulingIgnoredDuringExecution" $all) }}
{{- end }}
{{- $placed = set (deepCopy $placed) "affinity" $affinity }}
{{- range $field := list "affinity" "nodeSelector" }}
{{- with index $placed $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with concat $placed.tolerations (include "editjudge.gpuTolerations" $server | fromJsonArray) | uniq }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- $spread := $placed.topologySpread }}
{{- if and (kindIs "invalid" $spread) (has $tier (list "front" "servers")) }}
{{- /* Apart from each other, where there is room. */}}
{{- $spread = list }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
{{- $spread = append $spread (dict "topologyKey" . "maxSkew" 1 "whenUnsatisfiable" "ScheduleAnyway") }}
{{- end }}
{{- end }}
{{- with $spread }}
topologySpreadConstraints:
{{- $pods := dict "labelSelector" (dict "matchLabels" (include "editjudge.selector" $args | fromYaml)) }}
{{- range . }}
- {{ merge (deepCopy .) $pods | toJson }}
{{- end }}
{{- end }}
{{- end -}}
