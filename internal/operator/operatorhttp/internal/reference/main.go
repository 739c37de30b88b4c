// Command reference writes the generated pages of the operator's API.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/onceward/onceward/internal/operator/operatorhttp"
)

func main() {
	openapi := flag.String("openapi", "", "where the OpenAPI document goes")
	problems := flag.String("problems", "", "where the page of problem codes goes")
	flag.Parse()
	document, err := operatorhttp.OpenAPI()
	if err == nil {
		err = os.WriteFile(*openapi, document, 0o644) //nolint:gosec // a public page of the repository
	}
	if err == nil {
		err = os.WriteFile(*problems, operatorhttp.Problems(), 0o644) //nolint:gosec // a public page of the repository
	}
	if err != nil {
		log.Fatal(err)
	}
}
