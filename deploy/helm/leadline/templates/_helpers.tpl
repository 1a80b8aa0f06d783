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
{{- if not .Values.image.repository -}}
{{- fail "image.repository is missing: name the image of the run, which you build from Containerfile (docs/guides/kubernetes-scheduled.md)" -}}
{{- end -}}
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

{{/* The security of a pod. OpenShift's restricted-v2 takes users of the namespace's range alone, and
chooses where a pod names none. */}}
{{- define "leadline.podSecurity" -}}
{{- $security := .Values.podSecurityContext -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- $security = omit $security "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $security -}}
{{- end -}}

{{- define "leadline.volumes" -}}
- name: results
  {{- if .Values.results.persistence }}
  persistentVolumeClaim: {claimName: {{ .Values.results.existingClaim | default (printf "%s-results" (include "leadline.name" .)) }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: plan
  projected:
    sources:
      - configMap: {name: {{ .Values.existingPlan | default (printf "%s-plan" (include "leadline.name" .)) }}}
      - configMap: {name: {{ include "leadline.name" . }}-script}
- name: tmp
  emptyDir: {sizeLimit: 2Gi}
{{- with .Values.caConfigMap }}
- name: ca
  configMap: {name: {{ . }}}
{{- end }}
{{- end -}}
