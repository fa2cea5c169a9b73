package proxier

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// plan plans one Service, records its claims and adds what that touched. A panic costs this Service its
// change and nobody else's: it keeps what it had, is said as a problem and planned
// again later. What was touched before the panic is not known, so that the kernel is
// read and compared anew.
func (p *Proxier) plan(name plan.ServiceName, touched *ledger.Touched) (ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			p.problems.replace(name, []plan.Problem{{
				Service: name, Part: "planning", Reason: fmt.Sprint("panic: ", cause),
			}})
			p.panicked[name] = time.Now().Add(planAgain)
			p.kernel.Doubt()
			if touched != nil {
				touched.Merge(p.ledger.All())
			}
			ok = false
		}
	}()
	service, endpoints := p.source.Service(name)
	if service == nil {
		p.problems.replace(name, nil)
		p.loopback.replace(name, loopbackClaim{})
		delete(p.panicked, name)
		p.ledger.RemoveInto(touched, name)
		return true
	}
	claims, found := plan.For(service, endpoints, p.node, p.config.Plan)
	p.ledger.ReplaceInto(touched, ledger.Owner{Name: name, Created: service.Created}, claims)
	p.loopback.replace(name, loopbackClaim{service.Created, claims.Loopback})
	p.problems.replace(name, found)
	delete(p.panicked, name)
	return true
}

// problems says each problem once: when it appears, or appears again.
type problems struct {
	log       *slog.Logger
	events    watch.Eventer
	known     map[plan.ServiceName][]plan.Problem
	count     int // of known
	contested []ledger.Conflict
	markless  []plan.ServiceName
}

func newProblems(log *slog.Logger, events watch.Eventer) problems {
	if events == nil {
		events = watch.NoEvents{}
	}
	return problems{log: log, events: events, known: map[plan.ServiceName][]plan.Problem{}}
}

func (p *problems) replace(name plan.ServiceName, now []plan.Problem) {
	before := p.known[name]
	p.count += len(now) - len(before)
	for _, problem := range now {
		if !slices.Contains(before, problem) {
			p.tell(name, problem.Part, problem.Reason)
		}
	}
	if len(now) == 0 {
		delete(p.known, name)
		return
	}
	p.known[name] = now
}

// conflicts says which frontends came to be claimed by several Services.
func (p *problems) conflicts(now []ledger.Conflict) {
	for _, c := range now {
		if slices.ContainsFunc(p.contested, func(k ledger.Conflict) bool { return equalConflicts(k, c) }) {
			continue
		}
		for _, loser := range c.Losers {
			p.tell(loser, c.Key.String(), "Service "+c.Winner.String()+" has this address and port")
		}
	}
	p.contested = now
}

// localOnly says which Services came to lack a mark.
func (p *problems) localOnly(now []plan.ServiceName) {
	for _, name := range now {
		if _, known := slices.BinarySearchFunc(p.markless, name, compareNames); !known {
			p.tell(name, "externalTrafficPolicy", "all marks are taken: clients on this node reach only endpoints on this node")
		}
	}
	p.markless = now
}

// tell says it to the operator of the node and to the users of the cluster.
func (p *problems) tell(name plan.ServiceName, part, reason string) {
	p.log.Warn("cannot serve", "service", name.String(), "part", part, "reason", reason)
	p.events.Service(name, watch.Warning, "CannotServe", "ProgramService", part+": "+reason)
}

func equalConflicts(a, b ledger.Conflict) bool {
	return a.Key == b.Key && a.Winner == b.Winner && slices.Equal(a.Losers, b.Losers)
}
