// Prints what the Go types of the Kubernetes API say of themselves, and objects as Go encodes them.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

func main() {
	objects := flag.Int("objects", 0, "print so many random objects of each kind, as JSON and as protobuf")
	templates := flag.Int("templates", 0, "print so many random pod templates with the hashes that controllers make of them")
	seed := flag.Int64("seed", 1, "seed of what is random")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if *objects > 0 {
		printObjects(out, *seed, *objects)
		return
	}
	if *templates > 0 {
		printTemplates(out, *seed, *templates)
		return
	}
	printFieldNumbers(out)
}

// printFieldNumbers prints the protobuf messages that any kind contains, each with the numbers of its fields.
// A field has the name that it has in JSON, an embedded struct that of its Go type.
func printFieldNumbers(out *bufio.Writer) {
	messages := map[string]string{}
	for _, kind := range kinds() {
		addMessage(messages, kind)
	}
	names := make([]string, 0, len(messages))
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(out, "%s%s\n", name, messages[name])
	}
}

func addMessage(messages map[string]string, message reflect.Type) {
	for message.Kind() == reflect.Pointer || message.Kind() == reflect.Slice || message.Kind() == reflect.Map {
		message = message.Elem()
	}
	if message.Kind() != reflect.Struct || !strings.Contains(message.PkgPath(), "k8s.io/") {
		return
	}
	name := messageName(message)
	if _, known := messages[name]; known {
		return
	}
	messages[name] = ""
	fields := ""
	for i := range message.NumField() {
		field := message.Field(i)
		tag, isField := field.Tag.Lookup("protobuf")
		if !isField || tag == "-" {
			continue
		}
		jsonName, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if jsonName == "" {
			jsonName = field.Name
		}
		fields += fmt.Sprintf(" %s=%s", jsonName, strings.Split(tag, ",")[1])
		addMessage(messages, field.Type)
	}
	messages[name] = fields
}

// messageName is the group and the name of a type: core.PodSpec.
func messageName(message reflect.Type) string {
	path := strings.Split(message.PkgPath(), "/")
	group := path[len(path)-1]
	if len(path) > 1 && len(group) > 1 && group[0] == 'v' && group[1] >= '0' && group[1] <= '9' {
		group = path[len(path)-2]
	}
	return group + "." + message.Name()
}

type encodedObject struct {
	JSON json.RawMessage `json:"json"`
	// In hexadecimal digits.
	Protobuf string `json:"protobuf"`
}

func printObjects(out *bufio.Writer, seed int64, count int) {
	encoder := json.NewEncoder(out)
	eachRandomObject(seed, count, func(object runtime.Object) {
		text, err := json.Marshal(object)
		check(err)
		protobuf, err := encodeProtobuf(object)
		check(err)
		check(encoder.Encode(encodedObject{text, hex.EncodeToString(protobuf)}))
	})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
