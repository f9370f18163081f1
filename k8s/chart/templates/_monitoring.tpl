{{/* What is scraped, and by what it is asked: files/monitoring holds the queries. */}}

{{/* A query for this release: (root, query, job) */}}
{{- define "editjudge.query" -}}
{{- $root := index . 0 -}}
{{- $query := index . 1 | replace "OURS" (printf "namespace=%q,editjudge=%q" $root.Release.Namespace $root.Release.Name) | replace "JOB" (index . 2) -}}
{{- range $name, $limit := $root.Values.monitoring.rules.limits -}}
{{- $query = $query | replace (snakecase $name | upper) (toString $limit) -}}
{{- end -}}
{{- $query -}}
{{- end -}}

{{/* JSON of what is served: tier -> {port, path, groups: job -> {pods, models}} */}}
{{- define "editjudge.scraped" -}}
{{- $scraped := dict -}}
{{- $triton := dict -}}
{{- range $name, $server := .Values.triton.servers -}}
{{- $_ := set $triton (printf "triton-%s" $name) (dict "pods" (max 1 (int $server.replicas)) "models" (len $server.models)) -}}
{{- end -}}
{{- $vllm := dict -}}
{{- range $name, $server := .Values.vllm.servers -}}
{{- /* Its own protocol has no metrics. */ -}}
{{- if ne ($server.protocol | default "http") "grpc" -}}
{{- $_ := set $vllm (printf "vllm-%s" $name) (dict "pods" (max 1 (int $server.replicas))) -}}
{{- end -}}
{{- end -}}
{{- with $triton }}{{ $_ := set $scraped "triton" (dict "port" "metrics" "path" "/metrics" "groups" .) }}{{ end -}}
{{- with $vllm }}{{ $_ := set $scraped "vllm" (dict "port" "http" "path" "/metrics" "groups" .) }}{{ end -}}
{{- if .Values.judge.enabled -}}
{{- $_ := set $scraped "judge" (dict "port" "http" "path" "/metrics" "groups" (dict "judge" (dict "pods" (max 1 (int .Values.judge.replicas))))) -}}
{{- end -}}
{{- if eq .Values.front.kind "envoy" -}}
{{- $_ := set $scraped "front" (dict "port" "metrics" "path" "/stats/prometheus" "groups" (dict "front-metrics" (dict "pods" (max 1 (int .Values.front.envoy.replicas))))) -}}
{{- end -}}
{{- $scraped | toJson -}}
{{- end -}}

{{/* JSON of a panel of a dashboard: (root, panel, number, x, y) */}}
{{- define "editjudge.panel" -}}
{{- $root := index . 0 -}}
{{- $panel := index . 1 -}}
{{- $source := dict "type" "prometheus" "uid" "${datasource}" -}}
{{- $targets := list -}}
{{- range $i, $query := $panel.queries -}}
{{- $targets = append $targets (dict "refId" (substr $i (int (add 1 $i)) "ABCDEFGH") "datasource" $source "expr" (include "editjudge.query" (list $root $query.expr "")) "legendFormat" $query.legend) -}}
{{- end -}}
{{- dict
  "id" (index . 2)
  "type" ($panel.kind | default "timeseries")
  "title" $panel.title
  "datasource" $source
  "gridPos" (dict "x" (index . 3) "y" (index . 4) "w" 8 "h" 8)
  "fieldConfig" (dict "defaults" (dict "unit" ($panel.unit | default "short")) "overrides" list)
  "targets" $targets | toJson -}}
{{- end -}}

{{/* JSON of a dashboard: (root, name, board, tiers that are there) */}}
{{- define "editjudge.dashboard" -}}
{{- $root := index . 0 -}}
{{- $board := index . 2 -}}
{{- $there := index . 3 -}}
{{- $panels := list -}}
{{- $y := 0 -}}
{{- $number := 1 -}}
{{- range $board.rows -}}
{{- if has .of $there -}}
{{- $panels = append $panels (dict "id" $number "type" "row" "title" .title "collapsed" false "panels" list "gridPos" (dict "x" 0 "y" $y "w" 24 "h" 1)) -}}
{{- $number = add 1 $number -}}
{{- $y = add 1 $y -}}
{{- range $i, $panel := .panels -}}
{{- $panels = append $panels (include "editjudge.panel" (list $root $panel $number (mul 8 (mod $i 3)) (add $y (mul 8 (div $i 3)))) | fromJson) -}}
{{- $number = add 1 $number -}}
{{- end -}}
{{- $y = add $y (mul 8 (div (add 2 (len .panels)) 3)) -}}
{{- end -}}
{{- end -}}
{{- $variables := list (dict "name" "datasource" "type" "datasource" "query" "prometheus" "label" "Prometheus") -}}
{{- with $board.variable -}}
{{- $query := printf "label_values(%s, %s)" (include "editjudge.query" (list $root .expr "")) .name -}}
{{- $variables = append $variables (dict "name" .name "type" "query" "label" .name "datasource" (dict "type" "prometheus" "uid" "${datasource}") "query" (dict "query" $query "refId" "variable") "refresh" 2 "sort" 1) -}}
{{- end -}}
{{- dict
  "uid" (list $root.Release.Namespace $root.Release.Name (index . 1) | join "/" | sha256sum | trunc 20)
  "title" (printf "%s: %s/%s" $board.title $root.Release.Namespace $root.Release.Name)
  "tags" (list "editjudge")
  "schemaVersion" 39
  "editable" false
  "refresh" "1m"
  "time" (dict "from" "now-6h" "to" "now")
  "templating" (dict "list" $variables)
  "panels" $panels | toPrettyJson -}}
{{- end -}}
