package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// leavingTaint is what a node gets before its pods leave.
const leavingTaint = "ToBeDeletedByClusterAutoscaler"

// step is one node's removal: it is tainted, all its pods leave, those of `moves` are made anew one after another, then it
// goes. A list of clusters' items may have such steps beside them; only replaying reads them.
type step struct {
	Node  string `json:"node"`
	Moves []move `json:"moves"`
}

type move struct {
	Pod string `json:"pod"`
	To  string `json:"to"`
}

// arrival is the line of a move: is the destination feasible, and where not, why. Failed is set where a plug-in returned an
// error, or the destination could not be reserved.
type arrival struct {
	Node    string   `json:"node"`
	Pod     string   `json:"pod"`
	To      string   `json:"to"`
	Fits    bool     `json:"fits"`
	Verdict *verdict `json:"verdict,omitempty"`
	Failed  string   `json:"failed,omitempty"`
}

// replay prints the line of each move, in order. A pod that does not fit is put there nevertheless.
func (b *bench) replay(ctx context.Context, c *cluster, tell func(any) error) error {
	court, adjourn, err := b.seat(ctx, c)
	if err != nil {
		return err
	}
	defer adjourn()
	stand := map[string]*v1.Pod{}
	for _, pod := range c.pods {
		if pod.Spec.NodeName != "" && !finished(pod) {
			stand[nameOf(pod)] = pod
		}
	}
	for _, step := range c.steps {
		if err := court.remove(ctx, step, stand, tell); err != nil {
			return fmt.Errorf("removing %s: %w", step.Node, err)
		}
	}
	return nil
}

func (c *court) remove(ctx context.Context, step step, stand map[string]*v1.Pod, tell func(any) error) error {
	logger := klog.FromContext(ctx)
	node, err := c.taint(logger, step.Node)
	if err != nil {
		return err
	}
	leavers := map[string]*v1.Pod{}
	for name, pod := range stand {
		if pod.Spec.NodeName == step.Node {
			leavers[name] = pod
			delete(stand, name)
			if err := c.cache.RemovePod(logger, pod); err != nil {
				return err
			}
		}
	}
	if err := c.cache.UpdateSnapshot(logger, c.snapshot); err != nil {
		return err
	}
	for _, move := range step.Moves {
		pod, there := leavers[move.Pod]
		if !there {
			return fmt.Errorf("%s is not on it", move.Pod)
		}
		if stand[move.Pod], err = c.arrive(ctx, step.Node, pod, move.To, tell); err != nil {
			return err
		}
	}
	if err := c.cache.RemoveNode(logger, node); err != nil {
		return err
	}
	return c.cache.UpdateSnapshot(logger, c.snapshot)
}

// taint keeps new pods off the node, and answers it as it is then.
func (c *court) taint(logger klog.Logger, name string) (*v1.Node, error) {
	for i, node := range c.nodes {
		if node.Name == name {
			tainted := node.DeepCopy()
			taint := v1.Taint{Key: leavingTaint, Effect: v1.TaintEffectNoSchedule}
			tainted.Spec.Taints = append(tainted.Spec.Taints, taint)
			c.cache.UpdateNode(logger, node, tainted)
			c.nodes = append(c.nodes[:i:i], c.nodes[i+1:]...)
			return tainted, nil
		}
	}
	return nil, fmt.Errorf("no such node")
}

// arrive judges the pod as one made anew and puts it on its destination.
func (c *court) arrive(ctx context.Context, from string, pod *v1.Pod, to string, tell func(any) error) (*v1.Pod, error) {
	anew := pod.DeepCopy()
	anew.Spec.NodeName, anew.DeletionTimestamp, anew.DeletionGracePeriodSeconds = "", nil, nil
	state := framework.NewCycleState()
	found := c.place(ctx, state, anew)
	line := arrival{Node: from, Pod: nameOf(pod), To: to, Failed: found.Failed}
	for _, name := range found.Feasible {
		line.Fits = line.Fits || name == to
	}
	if rejection, rejected := found.Rejected[to]; rejected {
		line.Verdict = &rejection
	}
	anew.Spec.NodeName = to
	if line.Fits {
		if status := c.framework.RunReservePluginsReserve(ctx, state, anew, to); !status.IsSuccess() {
			line.Failed = "reserve: " + status.Message()
		}
	}
	if err := tell(line); err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	if err := c.cache.AssumePod(logger, anew); err != nil {
		return nil, err
	}
	return anew, c.cache.UpdateSnapshot(logger, c.snapshot)
}
