package health

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// checkBody is the answer of a Service's health check.
type checkBody struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// weightHeader tells load balancers how many endpoints of the Service this node has.
const weightHeader = "X-Load-Balancing-Endpoint-Weight"

// handler answers for one Service and family, whatever path and method.
func (c *Checks) handler(name ServiceName, family Family) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		check := c.check(name)
		count, healthy := check.LocalReady[family], c.healthy()
		body := checkBody{LocalEndpoints: count, ServiceProxyHealthy: healthy}
		body.Service.Namespace, body.Service.Name = name.Namespace, name.Name
		text, err := json.MarshalIndent(body, "", "\t")
		if err != nil { // no such body: strings, a number and a bool
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		code := http.StatusServiceUnavailable
		if count > 0 && healthy {
			code = http.StatusOK
		}
		w.Header().Set(weightHeader, strconv.Itoa(count))
		writeJSON(w, code, text)
	})
}
