//go:build kernel

package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// strangers are servers of every look that ipvsadm can print.
var strangers = []string{
	"ipvsadm -A -t 10.96.9.1:443 -s mh -b mh-port", "ipvsadm -a -t 10.96.9.1:443 -r 10.2.2.4:53 -m -w 3",
	"ipvsadm -a -t 10.96.9.1:443 -r 200.2.2.4:53 -m -w 0", "ipvsadm -a -t 10.96.9.1:443 -r 10.2.2.4:52 -m -w 65535",
	"ipvsadm -A -t 10.96.9.2:443 -s sh -b sh-fallback,sh-port", "ipvsadm -A -t 10.96.9.3:443 -s wlc -b flag-1,flag-3 -p 300 -M 255.255.255.0",
	"ipvsadm -A -u 203.0.113.77:53 -s rr -o", "ipvsadm -A -u 203.0.113.78:53 -s rr -o -p",
	"ipvsadm -a -u 203.0.113.78:53 -r 10.2.2.2:53 -i", "ipvsadm -a -u 203.0.113.78:53 -r 10.2.2.3:53 -g",
	"ipvsadm -A -t 100.64.0.2:30080 -s rr", "ipvsadm -A -t 192.0.2.7:80 -s rr", "ipvsadm -A --sctp-service 10.96.9.9:99 -s rr",
	"ipvsadm -A -f 7 -6 -s rr", "ipvsadm -A -f 4294967290 -s rr", "ipvsadm -A -f 78 -s rr",
	"ipvsadm -A -t [fd96::99]:80 -s rr -p 10 -M 64", "ipvsadm -a -t [fd96::99]:80 -r [fd44:0:0:1:1234:1234:1234:10]:8080 -m",
}

func TestListAsIPVSAdm(t *testing.T) {
	settle(t)
	for _, line := range strangers {
		tool(t, line)
	}
	t.Cleanup(func() {
		for _, line := range strangers {
			if delete, ok := strings.CutPrefix(line, "ipvsadm -A "); ok {
				of, _, _ := strings.Cut(delete, " -s")
				tool(t, "ipvsadm -D "+of)
			}
		}
	})
	a := command(t, "list", "-o", "ipvsadm")
	if diff := cmp.Diff(tool(t, "ipvsadm -Ln"), a.out); diff != "" || a.code != 0 {
		t.Errorf("ipvsadm -, list + (%d) %s\n%s", a.code, a.errors, diff)
	}
}

func TestListNames(t *testing.T) {
	settle(t)
	tool(t, "ipvsadm -a -t 10.96.0.20:80 -r 10.244.3.10:8080 -m -w 0")
	a := command(t, "list")
	for _, want := range []string{
		"10.96.0.10:80/tcp  shop/web:http  ClusterIP  rr persistent 10800s\n",
		"203.0.113.7:80/tcp  shop/front:http  LoadBalancer  rr\n", "203.0.113.9:80/tcp  shop/front:http  externalIP  rr\n",
		"172.30.0.2:30080/tcp  shop/front:http  NodePort  rr\n", "203.0.113.7:32000/tcp  shop/front  health check  rr\n",
		"shop/front  short circuit  rr\n",
	} {
		if !strings.Contains(a.out, want) {
			t.Errorf("no %q", want)
		}
	}
	flat := strings.Join(strings.Fields(a.out), " ")
	for _, want := range []string{
		"-> 10.244.1.10:8080 1 0 0 node-1 web-55d8~b4-k2x8p", "1 0 0 node-2 web-of-a~b4-zzzzz", "SERVER WEIGHT ACTIVE INACTIVE NODE POD",
		"-> 10.244.3.10:8080 0 0 0 node-3 - draining: it is no endpoint of the Service any more",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(a.out) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if t.Failed() {
		t.Log(a.out + a.errors)
	}
	some := command(t, "list", "--service", "shop/web", "--rate", "-o", "json")
	var rows []struct{ Server, Service, Kind string }
	if err := json.Unmarshal([]byte(some.out), &rows); err != nil || len(rows) != 2 || rows[0].Service != "shop/web" {
		t.Errorf("%v: %s%s", err, some.out, some.errors)
	}
}
