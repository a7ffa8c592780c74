package sizing_test

import (
	"fmt"

	"microvms/client/sizing"
)

func ExampleLookup() {
	class, err := sizing.Lookup(sizing.Published(), 2048)
	fmt.Println(class.Describe(), err)
	_, err = sizing.Lookup(sizing.Published(), 1500)
	fmt.Println(err != nil)
	// Output:
	// 2048 MiB baseline, 1 vCPU (peak 8192 MiB, 4 vCPU) <nil>
	// true
}

func ExampleChoose() {
	class, err := sizing.Choose(sizing.Published(), sizing.Request{MemoryMiB: 600, MilliVCPU: 1500})
	fmt.Println(class.Describe(), err)
	// Output: 4096 MiB baseline, 2 vCPU (peak 16384 MiB, 8 vCPU) <nil>
}
