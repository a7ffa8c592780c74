package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"microvms/client"
	"microvms/client/cost"
	"microvms/client/sizing"
)

// costCommand is `microvm cost`. It makes no call: the rates are those that this
// command was built with.
type costCommand struct {
	Estimate     bool    `help:"Price the plan of the flags below (the default)."`
	Compare      bool    `help:"Compare a running VM with a suspended one over --hold-sec."`
	Memory       int     `enum:"512,1024,2048,4096,8192" default:"2048" placeholder:"MIB" help:"Size class by baseline memory: ${enum} (${default})."`
	RunningSec   float64 `name:"running-sec" default:"0" placeholder:"SECONDS" help:"Plan: time running."`
	SuspendedSec float64 `name:"suspended-sec" default:"0" placeholder:"SECONDS" help:"Plan: time suspended."`
	BuildSec     float64 `name:"build-sec" default:"0" placeholder:"SECONDS" help:"Plan: time of the image build, which has no known price."`
	ImageGB      float64 `name:"image-gb" default:"0" placeholder:"GB" help:"Plan: size of an image that is built."`
	Cycles       int     `default:"1" placeholder:"N" help:"Suspends with their resumes (${default}); each is priced, in a plan even without suspended time."`
	HoldSec      float64 `name:"hold-sec" default:"3600" placeholder:"SECONDS" help:"Comparison: time to hold the VM (${default})."`
	HTML         string  `name:"html" placeholder:"FILE" help:"With --compare: write a page with a chart as well."`
	MaxCost      *string `name:"max-cost" placeholder:"DOLLARS" help:"Warn when the plan costs more."`
	OnBreach     string  `name:"on-breach" enum:"warn,abort," default:"" placeholder:"WHAT" help:"With --max-cost: warn, or abort with exit code 12 (warn)."`
}

// costData is the data of microvm.cost; what was not asked for is null.
type costData struct {
	Report     *cost.Report     `json:"report"`
	Comparison *cost.Comparison `json:"comparison"`
	Budget     *budgetData      `json:"budget"`
}

// budgetData is how the plan stands to --max-cost.
type budgetData struct {
	MaxUSD   cost.Dollars `json:"maxUsd"`
	Verdict  cost.Verdict `json:"verdict"`
	OnBreach string       `json:"onBreach"`
}

func (c *costCommand) run(ctx context.Context, a *app) (*result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	size, err := sizing.Lookup(sizing.Published(), c.Memory)
	if err != nil {
		return nil, usage("%s", err)
	}
	rates, today := cost.Pinned(), cost.DateOf(a.now())
	res, data := &result{kind: "microvm.cost"}, costData{}
	var text, dense []string
	if c.Estimate || !c.Compare {
		plan := cost.Plan{Label: "estimate", Size: size, RunningSec: c.RunningSec, SuspendedSec: c.SuspendedSec, BuildSec: c.BuildSec,
			ImageGB: c.ImageGB, Cycles: c.Cycles}
		if data.Report, err = cost.Estimate(rates, plan, today); err != nil {
			return nil, costError(err)
		}
		text, dense = append(text, data.Report.Text()), append(dense, data.Report.Dense())
	}
	if c.Compare {
		if data.Comparison, err = cost.Compare(rates, size, c.HoldSec, c.Cycles, today); err != nil {
			return nil, costError(err)
		}
		text, dense = append(text, data.Comparison.Text()), append(dense, data.Comparison.Dense())
	}
	if stale := rates.Staleness(today); stale != "" {
		res.warnings = append(res.warnings, stale)
	}
	if err := c.judge(res, &data); err != nil {
		return nil, err
	}
	if data.Budget != nil {
		dense = append(dense, strings.Join([]string{"budget", string(data.Budget.Verdict)}, "\t"))
	}
	if err := c.page(ctx, a, data.Comparison); err != nil {
		return nil, err
	}
	res.data, res.text, res.dense = data, strings.Join(text, "\n"), strings.Join(dense, "\n")
	return res, nil
}

// check refuses flags that would have no effect.
func (c *costCommand) check() error {
	switch {
	case c.HTML != "" && !c.Compare:
		return usage("--html draws a comparison: give --compare as well")
	case c.MaxCost != nil && c.Compare && !c.Estimate:
		return usage("--max-cost judges a plan: give --estimate as well")
	case c.OnBreach != "" && c.MaxCost == nil:
		return usage("--on-breach is for --max-cost: give a limit")
	}
	return nil
}

// judge compares the plan with --max-cost. The report is the answer in each case,
// so a breach is an envelope of success with exit code 12.
func (c *costCommand) judge(res *result, data *costData) error {
	if c.MaxCost == nil {
		return nil
	}
	limit, err := cost.ParseDollars(*c.MaxCost)
	if err != nil {
		return usage("--max-cost: %s", err)
	}
	total := data.Report.Total()
	data.Budget = &budgetData{limit, cost.Judge(total, limit), "warn"}
	if c.OnBreach != "" {
		data.Budget.OnBreach = c.OnBreach
	}
	switch data.Budget.Verdict {
	case cost.Over:
		res.warnings = append(res.warnings, fmt.Sprintf("the plan costs %s, over --max-cost %s", total, *c.MaxCost))
		if data.Budget.OnBreach == "abort" {
			res.exit = exitOf(client.KindPrecondition)
		}
	case cost.Undetermined:
		res.warnings = append(res.warnings, fmt.Sprintf("the plan costs %s: whether that stays within --max-cost %s is not known", total, *c.MaxCost))
	}
	return nil
}

// page writes the comparison's page where --html says.
func (c *costCommand) page(ctx context.Context, a *app, comparison *cost.Comparison) error {
	if c.HTML == "" {
		return nil
	}
	var buf bytes.Buffer
	err := comparison.HTML(&buf)
	if err == nil {
		err = a.writeFile(ctx, c.HTML, buf.Bytes())
	}
	if err != nil {
		return localError("cannot write the page", err)
	}
	return nil
}

// costError gives a refusal of the cost engine its code.
func costError(err error) error {
	if errors.Is(err, cost.ErrInvalid) {
		return usage("%s", err)
	}
	return err
}
