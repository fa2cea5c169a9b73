package cluster

import (
	"context"
	"errors"
	"fmt"
)

// StopAPI kills the API server; etcd keeps its objects. Pids must not be asked for
// until StartAPI.
func (c *Cluster) StopAPI() error {
	if c.api == nil {
		return errors.New("stop the API server: it does not run")
	}
	api := c.api
	c.api = nil
	return api.kill()
}

// StartAPI starts the API server again after StopAPI, at the same address, and
// returns when it is ready.
func (c *Cluster) StartAPI(ctx context.Context) error {
	if c.api != nil {
		return errors.New("start the API server: it runs")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("waited %v", readyLimit))
	defer cancel()
	var err error
	if c.api, err = startChild(c.programs.APIServer, c.apiArgs()); err != nil {
		return err
	}
	return c.waitReady(ctx)
}
