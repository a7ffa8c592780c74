package cost_test

import (
	"fmt"
	"time"

	"github.com/cockroachdb/apd/v3"

	"microvms/client/cost"
	"microvms/client/sizing"
)

// today is the day of the examples; a program takes cost.DateOf(time.Now()).
var today = cost.DateOf(time.Date(2026, 8, 8, 0, 0, 0, 0, time.UTC))

func Example() {
	size, _ := sizing.Lookup(sizing.Published(), 2048)
	running, _ := cost.Measured(90 * time.Second)
	build, _ := cost.Measured(time.Minute)
	report, err := cost.Price(cost.Pinned(), cost.Usage{Label: "run", Size: size, Build: build, Launched: true, Running: running}, today)
	if err != nil {
		fmt.Println(err)
		return
	}
	switch total := report.Total().(type) {
	case cost.Exact:
		fmt.Println("exactly", total.USD())
	case cost.AtLeast:
		fmt.Println("at least", total.Floor())
		for _, o := range total.Unpriced() {
			fmt.Printf("without %s: %s\n", o.Phase, o.Reason)
		}
	}
	// Output:
	// at least ~$0.006253 (estimated)
	// without image-build: AWS does not say whether the server-side build is billed
}

func ExampleEstimate() {
	size, _ := sizing.Lookup(sizing.Published(), 512)
	report, _ := cost.Estimate(cost.Pinned(), cost.Plan{Label: "estimate", Size: size, RunningSec: 3600}, today)
	fmt.Print(report.Text())
	// Output:
	// estimate: 512 MiB baseline, 0.25 vCPU (peak 2048 MiB, 1 vCPU)
	// rates: us-east-1, retrieved 2026-08-07, https://aws.amazon.com/lambda/pricing/
	// PHASE    LINE           QUANTITY  UNIT          AMOUNT                  DURATION          NOTE
	// launch   snapshot-read  0.5       GB            ~$0.000775 (estimated)  -
	// running  vcpu           900       vCPU-seconds  ~$0.024925 (estimated)  3600 s projected
	// running  memory         1800      GB-seconds    ~$0.006600 (estimated)  3600 s projected
	// total: ~$0.032300 (estimated)
	// durations: all projected
}

func ExampleCompare() {
	size, _ := sizing.Lookup(sizing.Published(), 2048)
	c, _ := cost.Compare(cost.Pinned(), size, 3600, 1, today)
	seconds, _ := c.BreakEven()
	fmt.Println(c.Cheaper(), c.Ratio(), seconds)
	// Output: suspended 2.6253 1371.291648
}

func ExampleFromCatalog() {
	catalog := cost.Catalog{Region: "eu-west-1", SourceURL: cost.PricingURL, Retrieved: today, Entries: []cost.CatalogEntry{
		{Group: "AWS-Lambda-MicroVM-vCPU-Second", Unit: "vCPU-Seconds", USD: "0.0000326557"},
	}}
	_, err := cost.FromCatalog(catalog)
	fmt.Println(err)
	// Output: cannot take rates from the catalog of region "eu-west-1": "AWS-Lambda-MicroVM-vCPU-Second-ARM" is missing; the x86 rate "0.0000326557" of AWS-Lambda-MicroVM-vCPU-Second is there and is not used: it is roughly 18% higher, and no MicroVM runs on x86
}

func ExampleDollars_Decimal() {
	d, _ := cost.DollarsOf(apd.New(15, -1))
	fmt.Println(d, d.Add(d).Decimal())
	// Output: ~$1.50 (estimated) 3.0
}

func ExampleJudge() {
	limit, _ := cost.ParseDollars("0.05")
	unpriced := cost.Item{Phase: cost.PhaseImageBuild, Amount: cost.NewUnpriced("nobody knows")}
	fmt.Println(cost.Judge(cost.Sum(nil), limit), cost.Judge(cost.Sum([]cost.Item{unpriced}), limit))
	// Output: within undetermined
}
