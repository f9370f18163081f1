{{/* A run as a RayJob of KubeRay: a head, which has the driver, pods of workers, and one that hands the job in. */}}

{{/* The Ray of images.judge, which KubeRay wants to be told. */}}
{{- define "editjudge.rayVersion" -}}2.60.0{{- end -}}

{{/* How many of a pod's processors take workers, of one each. */}}
{{- define "editjudge.processors" -}}
{{- $cpu := toString . -}}
{{- max 1 (hasSuffix "m" $cpu | ternary (div (trimSuffix "m" $cpu | int) 1000) (int (float64 $cpu))) -}}
{{- end -}}

{{/* One word of the command. A shell of the submitter reads it, and then one of the head: (run, word) */}}
{{- define "editjudge.rayWord" -}}
{{- $word := index . 1 -}}
{{- if regexMatch "[\\s'\"\\\\$`]" $word -}}
{{- fail (printf "runs.%s.arguments: %s: Ray hands a command on as text, without spaces, quotes, $ and backslashes: set it in `settings`" (index . 0) $word) -}}
{{- end -}}
"'{{ $word }}'"
{{- end -}}

{{/* A pod: (root, run, its name, settings, kind: head, worker or submitter) */}}
{{- define "editjudge.rayPod" -}}
{{- $root := index . 0 -}}
{{- $run := index . 1 -}}
{{- $kind := index . 4 -}}
{{- $args := list $root (printf "run-%s" (index . 2)) "run" -}}
{{- $placed := include "editjudge.placed" (list $root $run.pod) | fromJson -}}
{{- $reads := ne $kind "submitter" -}}
metadata:
  {{- include "editjudge.podMetadata" (list $args $placed dict) | nindent 2 }}
spec:
      restartPolicy: Never
      {{- include "editjudge.pod" (list $args "runs" $placed dict 30) | nindent 6 }}
      containers:
      - name: {{ $kind }}
        {{- include "editjudge.image" (list $root "judge") | nindent 8 }}
        env:
        - {name: HOME, value: /tmp}
        - {name: EDITJUDGE_STATE_DIR, value: /tmp/state}
        - {name: RAY_USAGE_STATS_ENABLED, value: "0"}
        {{- include "editjudge.env" $placed }}
        {{- include "editjudge.confined" $root | nindent 8 }}
        {{- include "editjudge.resources" ($reads | ternary $run.resources (dict "cpu" "500m" "memory" "512Mi")) | nindent 8 }}
        {{- if $reads }}
        ports:
        {{- if eq $kind "head" }}
        - {name: gcs-server, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        {{- end }}
        - {name: agent, containerPort: 52365}
        {{- /* KubeRay's own call wget, which the image has not. */}}
        {{- range $name, $failures := dict "startupProbe" 60 "readinessProbe" 3 "livenessProbe" 12 }}
        {{ $name }}:
          httpGet: {path: /api/local_raylet_healthz, port: agent}
          failureThreshold: {{ $failures }}
          {{- include "editjudge.probe" $root | nindent 10 }}
        {{- end }}
        {{- end }}
        volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if $reads }}
        - {name: shm, mountPath: /dev/shm}
        - {name: settings, mountPath: /etc/editjudge, readOnly: true}
        - {name: data, mountPath: /data, readOnly: true}
        {{- if eq $kind "head" }}
        - {name: runs, mountPath: /runs}
        {{- end }}
        {{- if $run.secret }}
        - {name: secret, mountPath: /secrets, readOnly: true}
        {{- end }}
        {{- end }}
        {{- include "editjudge.mounts" $placed }}
      volumes:
      - {name: tmp, emptyDir: {sizeLimit: 2Gi}}
      {{- if $reads }}
      - {name: shm, emptyDir: {medium: Memory, sizeLimit: 160Mi}}
      - {name: settings, configMap: {name: {{ index . 3 | quote }}}}
      - {name: data, persistentVolumeClaim: {claimName: {{ $run.data.claim | quote }}}}
      {{- if eq $kind "head" }}
      - {name: runs, persistentVolumeClaim: {claimName: {{ $run.claim | quote }}}}
      {{- end }}
      {{- with $run.secret }}
      - {name: secret, secret: {secretName: {{ . | quote }}, defaultMode: 0440}}
      {{- end }}
      {{- end }}
      {{- include "editjudge.volumes" $placed }}
{{- end -}}

{{/* (root, name, run, arguments, settings, task) */}}
{{- define "editjudge.rayJob" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $run := index . 2 -}}
{{- $args := list $root (printf "run-%s" $name) "run" -}}
{{- if not (or $run.settings (regexMatch "(^| )--ledger=" (join " " $run.arguments))) -}}
{{- fail (printf "runs.%s: workers on Ray share a ledger in PostgreSQL: give --ledger=postgresql://… in arguments (--ledger=none if calls may be paid for twice), or settings" $name) -}}
{{- end -}}
{{- $pods := int ($run.workers | default 1) -}}
{{- $words := list -}}
{{- range concat (list "editjudge" "run") (index . 3) (list "--ray=auto" (printf "--workers=1-%d" (mul $pods (include "editjudge.processors" $run.resources.cpu | int)))) -}}
{{- $words = append $words (include "editjudge.rayWord" (list $name .)) -}}
{{- end -}}
{{- /* KubeRay takes names of 47 letters. A changed job is another one, as a Job is. */ -}}
{{- $title := include "editjudge.name" $args -}}
{{- $digest := list $title (index . 5) (include "editjudge.rayVersion" $root) | toJson | sha256sum | trunc 8 -}}
{{- $pod := list $root $run $name (index . 4) -}}
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: {{ $title | trunc 38 | trimSuffix "-" }}-{{ $digest }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "editjudge.labels" $args | nindent 4 }}
spec:
  entrypoint: {{ join " " $words | quote }}
  # Each is a cluster anew, and the run goes on in its folder.
  backoffLimit: {{ ternary 6 $run.retries (kindIs "invalid" $run.retries) }}
  {{- with $run.deadlineSeconds }}
  activeDeadlineSeconds: {{ int64 . }}
  {{- end }}
  shutdownAfterJobFinishes: true
  submissionMode: K8sJobMode
  submitterPodTemplate:
    {{- include "editjudge.rayPod" (append $pod "submitter") | nindent 4 }}
  rayClusterSpec:
    rayVersion: {{ include "editjudge.rayVersion" $root | quote }}
    authOptions: {mode: token}
    headGroupSpec:
      # No worker is beside the driver.
      rayStartParams: {num-cpus: "0", object-store-memory: "100000000"}
      template:
        {{- include "editjudge.rayPod" (append $pod "head") | nindent 8 }}
    workerGroupSpecs:
    - groupName: workers
      replicas: {{ $pods }}
      minReplicas: {{ $pods }}
      maxReplicas: {{ $pods }}
      rayStartParams: {num-cpus: {{ include "editjudge.processors" $run.resources.cpu | quote }}, object-store-memory: "100000000"}
      template:
        {{- include "editjudge.rayPod" (append $pod "worker") | nindent 8 }}
{{- end -}}
