package proxier

import (
	"fmt"
	"log/slog"
	"slices"

	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// plan plans one Service and records its claims. A panic costs this Service its
// change and nobody else's: it keeps what it had and is said as a problem.
func (p *Proxier) plan(name plan.ServiceName) (touched ledger.Touched) {
	defer func() {
		if cause := recover(); cause != nil {
			p.problems.replace(name, []plan.Problem{{
				Service: name, Part: "planning", Reason: fmt.Sprint("panic: ", cause),
			}})
			p.kernel.Doubt()
		}
	}()
	service, endpoints := p.source.Service(name)
	if service == nil {
		p.problems.replace(name, nil)
		return p.ledger.Remove(name)
	}
	claims, found := plan.For(service, endpoints, p.node, p.config.Plan)
	p.problems.replace(name, found)
	return p.ledger.Replace(ledger.Owner{Name: name, Created: service.Created}, claims)
}

// problems says each problem once: when it appears, or appears again.
type problems struct {
	log       *slog.Logger
	events    watch.Eventer
	known     map[plan.ServiceName][]plan.Problem
	contested []ledger.Conflict
}

func newProblems(log *slog.Logger, events watch.Eventer) problems {
	if events == nil {
		events = watch.NoEvents{}
	}
	return problems{log: log, events: events, known: map[plan.ServiceName][]plan.Problem{}}
}

func (p *problems) replace(name plan.ServiceName, now []plan.Problem) {
	before := p.known[name]
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
			p.tell(loser, c.Key.String(), "the older Service "+c.Winner.String()+" has this address and port")
		}
	}
	p.contested = now
}

// tell says it to the operator of the node and to the users of the cluster.
func (p *problems) tell(name plan.ServiceName, part, reason string) {
	p.log.Warn("cannot serve", "service", name.String(), "part", part, "reason", reason)
	p.events.Service(name, watch.Warning, "CannotServe", "ProgramService", part+": "+reason)
}

func equalConflicts(a, b ledger.Conflict) bool {
	return a.Key == b.Key && a.Winner == b.Winner && slices.Equal(a.Losers, b.Losers)
}
