{{- define "stream-dp.fullname" -}}
{{- if contains "stream-dp" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-stream-dp" (.Release.Name | trunc 30 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "stream-dp.selector" -}}
app.kubernetes.io/name: stream-dp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stream-dp.labels" -}}
{{ include "stream-dp.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "stream-dp.study" -}}
{{- .Values.study.configMap | default (printf "%s-study" (include "stream-dp.fullname" .)) -}}
{{- end -}}

{{- define "stream-dp.checksum" -}}
checksum/study: {{ .Values.study.text | sha256sum }}
{{- end -}}

{{- /* Whether the snapshots lie in the releaser's volume, and not in an object store. */ -}}
{{- define "stream-dp.volume" -}}
{{- if not (contains "://" .Values.snapshots) -}}yes{{- end -}}
{{- end -}}

{{- /* An image by its digest, or else by its tag; the argument is a list of the root and its values. */ -}}
{{- define "stream-dp.image" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
{{- .repository -}}
{{- if .digest -}}@{{ .digest }}{{- else -}}:{{ .tag | default $root.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "stream-dp.pod" -}}
# A Service that is called stream-dp would otherwise put STREAM_DP_PORT and others into the
# environment, which override the study's [run].
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "stream-dp.security" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* The environment of both; the argument is a list of the root and the name of the Secret. */ -}}
{{- define "stream-dp.environment" -}}
{{- $root := index . 0 -}}
- name: STREAM_DP_LOG
  value: {{ required "log: write kafka://HOST:PORT,.../PREFIX" $root.Values.log | quote }}
- name: STREAM_DP_PUBLIC
  value: {{ required "public: write kafka://HOST:PORT,.../PREFIX" $root.Values.public | quote }}
- name: STREAM_DP_SNAPSHOTS
  value: {{ $root.Values.snapshots | quote }}
{{- if $root.Values.aggregator.enabled }}
- name: STREAM_DP_ENGINE
  value: {{ $root.Values.aggregator.engine }}
{{- end }}
- name: KAFKA_USER
  valueFrom:
    secretKeyRef: {name: {{ index . 1 }}, key: username}
# What no restart cures waits in this container for a person, as the exit codes ask.
- name: AGAIN_HOLD
  value: /tmp/held
{{- end -}}

{{- define "stream-dp.volumes" -}}
- name: study
  configMap: {name: {{ include "stream-dp.study" (index . 0) }}}
- name: secrets
  secret: {secretName: {{ index . 1 }}, defaultMode: 0440}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end -}}

{{- define "stream-dp.mounts" -}}
- {name: study, mountPath: /study, readOnly: true}
- {name: secrets, mountPath: /run/secrets, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- /* The names of a Service, and declared ones; the argument is a list of the root, its component and those. */ -}}
{{- define "stream-dp.hosts" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-%s" (include "stream-dp.fullname" $root) (index . 1) -}}
{{- $space := printf "%s.%s" $name $root.Release.Namespace -}}
{{- concat (list $name $space (printf "%s.svc" $space) (printf "%s.svc.cluster.local" $space)) (index . 2) | join "," -}}
{{- end -}}

{{- define "stream-dp.application" -}}
{{- range $component := list "aggregator" "executor" }}
- podSelector:
    matchLabels: {{- include "stream-dp.selector" $ | nindent 6 }}
      app.kubernetes.io/component: {{ $component }}
{{- end }}
{{- end -}}

{{- /* Whether a process answers, unless its container waits for a person; the argument is the address. */ -}}
{{- define "stream-dp.alive" -}}
exec:
  command:
    - sh
    - -c
    - >-
      [ -e /tmp/held ] || exec python -P -c "import urllib.request as r;
      r.urlopen('http://127.0.0.1:{{ . }}', timeout=10)"
initialDelaySeconds: 60
periodSeconds: 30
timeoutSeconds: 15
failureThreshold: 10
{{- end -}}
