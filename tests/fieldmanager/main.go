// Prints the merge types of the Kubernetes API, and what the code of server-side apply makes of objects.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func main() {
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	switch command := flag.Arg(0); command {
	case "types":
		printMergeTypes(out)
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
