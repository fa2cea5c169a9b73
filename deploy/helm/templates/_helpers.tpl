{{- define "labels" -}}
app.kubernetes.io/name: kube-ipvs-proxy
{{- end }}

{{- define "image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The start of both containers. */}}
{{- define "container" -}}
image: {{ include "image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
  - name: NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
resources: {{- toYaml .Values.resources | nindent 2 }}
{{- end }}

{{- define "args" -}}
- --config=/var/lib/kube-proxy/config.conf
- --hostname-override=$(NODE_NAME)
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The mounts of both containers. */}}
{{- define "mounts" -}}
- name: config
  mountPath: /var/lib/kube-proxy
  readOnly: true
- name: lib-modules
  mountPath: /lib/modules
  readOnly: true
- name: run
  mountPath: /run/kube-ipvs-proxy
- name: xtables-lock
  mountPath: /run/xtables.lock
{{- end }}

{{/* The first document of the configuration. */}}
{{- define "kubeProxyConfiguration" -}}
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
clientConnection:
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
clusterCIDR: ""
metricsBindAddress: 0.0.0.0:10249
healthzBindAddress: 0.0.0.0:10256
oomScoreAdj: -997
{{- end }}

{{/* The second. */}}
{{- define "ownConfiguration" -}}
apiVersion: kube-ipvs-proxy/v1alpha1
kind: IPVSProxyConfiguration
externalAddressMode: capture
drainTimeout: 15m
{{- end }}
