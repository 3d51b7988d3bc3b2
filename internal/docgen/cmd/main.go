// Command cmd writes the generated parts of the documentation below the current
// directory. `go generate` in the module's root runs it.
package main

import (
	"fmt"
	"log"

	"github.com/toolyard/toolyard/internal/docgen"
)

func main() {
	log.SetFlags(0)
	changed, err := docgen.Write(".")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range changed {
		fmt.Println(name)
	}
}
