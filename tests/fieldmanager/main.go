// Prints the merge types of the Kubernetes API, and what the code of server-side apply makes of objects.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Int64("seed", 1, "seed of the random cases")
	count := flag.Int("count", 3, "so many random objects of each kind")
	server := flag.String("server", "", "URL of an API server")
	token := flag.String("token", "admintoken", "token of its administrator")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	switch command := flag.Arg(0); command {
	case "types":
		printMergeTypes(out)
	case "cases":
		printCases(out, *seed, *count)
	case "requests":
		recordResponses(out, os.Stdin, *server, *token)
	default:
		check(fmt.Errorf("unknown command %q", command))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
