package main

import (
	"time"

	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// agentSocket is where the agent tells the operator's commands what it knows. It is
// abstract: it belongs to the network namespace that is served, needs no file and goes
// with the process. Only root and the agent's own user are answered.
const agentSocket = "@kube-ipvs-proxy"

// The paths of agentSocket.
const (
	stateRoute  = "/v1/state"
	drainsRoute = "/v1/drains"
	namesRoute  = "/v1/names"
)

// agentState is all that a command needs to see the node as the agent does.
type agentState struct {
	Version string `json:"version"`
	// NodeName is the agent's; Config its configuration as a file.
	NodeName string         `json:"nodeName"`
	Config   string         `json:"config"`
	Node     watch.NodeInfo `json:"node"`
	// NodeKnown tells that there is a Node object.
	NodeKnown bool            `json:"nodeKnown"`
	Services  []agentService  `json:"services"`
	Problems  []watch.Problem `json:"problems"`
}

// agentService is what the agent has read of a Service; Service is nil where there are
// only endpoints.
type agentService struct {
	Name      plan.ServiceName `json:"name"`
	Service   *plan.Service    `json:"service,omitempty"`
	Endpoints []plan.Endpoint  `json:"endpoints,omitempty"`
}

// agentDrains is what drains now.
type agentDrains struct {
	// Changes counts how often what the agent has read changed.
	Changes uint64       `json:"changes"`
	Drains  []agentDrain `json:"drains"`
}

type agentDrain struct {
	Server   string    `json:"server"`
	Real     string    `json:"real"`
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline,omitzero"`
}
