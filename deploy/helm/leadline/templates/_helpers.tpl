{{- define "leadline.name" -}}
{{- if contains "leadline" .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-leadline" .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "leadline.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: leadline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{/* Never "leadline": that label marks an object of a run, which may be removed. */ -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "leadline.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "leadline.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "leadline.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The environment of `leadline` in a container, for every verb. */}}
{{- define "leadline.environment" -}}
- {name: HOME, value: /tmp}
- {name: LEADLINE_RUNS, value: /results}
{{- with .Values.proxy }}
{{- range $key, $value := dict "HTTP_PROXY" .http "HTTPS_PROXY" .https "NO_PROXY" (get . "no") }}
{{- if $value }}
- {name: {{ $key }}, value: {{ $value | quote }}}
- {name: {{ lower $key }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.caConfigMap }}
- {name: SSL_CERT_FILE, value: /etc/leadline-ca/ca.crt}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "leadline.mounts" -}}
- {name: results, mountPath: /results}
- {name: plan, mountPath: /etc/leadline, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.caConfigMap }}
- {name: ca, mountPath: /etc/leadline-ca, readOnly: true}
{{- end }}
{{- end -}}
