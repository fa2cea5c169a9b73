//go:build kernel

package tools

// services are one of each kind: ClusterIP in both families and UDP, affinity, Local
// policies, load balancer with source ranges, NodePort, no endpoint, headless.
const services = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec:
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, "fd96::10"]
  ipFamilies: [IPv4, IPv6]
  sessionAffinity: ClientIP
  ports: [{name: http, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: front}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.20
  clusterIPs: [10.96.0.20, "fd96::20"]
  ipFamilies: [IPv4, IPv6]
  externalTrafficPolicy: Local
  healthCheckNodePort: 32000
  loadBalancerSourceRanges: [172.30.0.0/16]
  externalIPs: [203.0.113.9]
  ports: [{name: http, port: 80, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}, {ip: "fd20:113::7"}]}}
---
apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: dns}
spec:
  clusterIP: 10.96.0.53
  clusterIPs: [10.96.0.53]
  internalTrafficPolicy: Local
  ports: [{name: dns, port: 53, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: empty}
spec:
  type: NodePort
  clusterIP: 10.96.0.30
  clusterIPs: [10.96.0.30]
  ports: [{name: http, port: 80, nodePort: 30090}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-4, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.244.1.10], nodeName: node-1, targetRef: {kind: Pod, name: web-55d8f7c9b4-k2x8p}, conditions: {ready: true}}
- {addresses: [10.244.2.10], nodeName: node-2, targetRef: {kind: Pod, name: web-of-a-really-long-name-55d8f7c9b4-zzzzz}, conditions: {ready: true}}
- {addresses: [10.244.3.10], nodeName: node-3, conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-6, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: ["fd44:0:0:1::10"], nodeName: node-1, conditions: {ready: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: front-4, labels: {kubernetes.io/service-name: front}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.244.1.11], nodeName: node-1, conditions: {ready: true}}
- {addresses: [10.244.2.10], nodeName: node-2, conditions: {ready: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: front-6, labels: {kubernetes.io/service-name: front}}
addressType: IPv6
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: ["fd44:0:0:2::10"], nodeName: node-2, conditions: {ready: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: kube-system, name: dns-4, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: dns, port: 53, protocol: UDP}]
endpoints:
- {addresses: [10.244.2.10], nodeName: node-2, conditions: {ready: true}}
`
