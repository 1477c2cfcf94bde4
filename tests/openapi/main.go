// Prints what the OpenAPI definitions of Kubernetes say of the built-in kinds.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	apiserveropenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kubernetesopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensions.AddToScheme(scheme))
	utilruntime.Must(apiregistration.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
}

// notServed are versions that client-go still knows.
var notServed = sets.New("extensions/v1beta1", "apps/v1beta1", "apps/v1beta2")

func main() {
	schemas := flag.Bool("schemas", false, "print the definitions as an API server publishes them in OpenAPI v3")
	flag.Parse()
	names := names()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if *schemas {
		printSchemas(out, names)
		return
	}
	printMarkers(out, names)
}

// names are the definitions of the preferred version of each kind, and those that they refer to, sorted.
func names() []string {
	seen := sets.New[string]()
	definitions := definitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
	var add func(name string)
	add = func(name string) {
		if seen.Has(name) {
			return
		}
		definition, known := definitions[name]
		if !known {
			check(fmt.Errorf("no definition of %s", name))
		}
		seen.Insert(name)
		for _, dependency := range definition.Dependencies {
			add(dependency)
		}
	}
	kinds := map[string]bool{}
	versions := scheme.PrioritizedVersionsAllGroups()
	sort.SliceStable(versions, func(i, j int) bool {
		return compareVersions(versions[i].Version, versions[j].Version) > 0
	})
	for _, groupVersion := range versions {
		if notServed.Has(groupVersion.String()) {
			continue
		}
		for kind := range scheme.KnownTypes(groupVersion) {
			gvk := groupVersion.WithKind(kind)
			object, err := scheme.New(gvk)
			check(err)
			model, isModel := object.(interface{ OpenAPIModelName() string })
			key := gvk.GroupKind().String()
			if isModel && !kinds[key] && isPublished(object) {
				kinds[key] = true
				add(model.OpenAPIModelName())
			}
		}
	}
	return sets.List(seen)
}

func compareVersions(a, b string) int {
	return version.CompareKubeAwareVersionStrings(a, b)
}

// isPublished says whether an object is one of the API, not one of the options of a request.
func isPublished(object runtime.Object) bool {
	switch object.(type) {
	case metav1.Object, metav1.ListInterface, *metav1.DeleteOptions, *metav1.Status, *metav1.WatchEvent:
		return true
	}
	return false
}

func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := map[string]common.OpenAPIDefinition{}
	for _, part := range []common.GetOpenAPIDefinitions{
		aggregatoropenapi.GetOpenAPIDefinitions,
		apiextensionsopenapi.GetOpenAPIDefinitions,
		kubernetesopenapi.GetOpenAPIDefinitions,
	} {
		for name, definition := range part(ref) {
			all[name] = definition
		}
	}
	return all
}

// printSchemas prints a line for each definition: its name and its schema.
func printSchemas(out *bufio.Writer, names []string) {
	namer := apiserveropenapi.NewDefinitionNamer(scheme)
	document, err := builder3.BuildOpenAPIDefinitionsForResources(&common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    definitions,
		GetDefinitionName: namer.GetDefinitionName,
	}, names...)
	check(err)
	for _, name := range names {
		text, err := json.Marshal(document[name])
		check(err)
		fmt.Fprintln(out, name, string(text))
	}
}

// printMarkers prints a line for each definition whose Go type has markers such as +enum and +union, and fields that
// are required: see crates/apimachinery/src/schema/markers.rs.
func printMarkers(out *bufio.Writer, names []string) {
	definitions := definitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
	lines := map[string]string{}
	versions := map[string]string{}
	for _, name := range names {
		if line := markers(definitions[name].Schema); line != "" && !strings.HasSuffix(name, "List") {
			parts := strings.Split(name, ".")
			group, version, kind := parts[len(parts)-3], parts[len(parts)-2], parts[len(parts)-1]
			short := group + "." + kind
			// A type that several versions have is that of the preferred one.
			if known := versions[short]; known == "" || compareVersions(version, known) > 0 {
				lines[short], versions[short] = line, version
			}
		}
	}
	for _, name := range sets.List(sets.KeySet(lines)) {
		fmt.Fprintf(out, "%s%s\n", name, lines[name])
	}
}

func markers(schema spec.Schema) string {
	required := sets.New(schema.Required...)
	line := ""
	for _, field := range sets.List(sets.KeySet(schema.Properties)) {
		property := schema.Properties[field]
		marks := ""
		if required.Has(field) {
			marks += "!"
		}
		marks += enumMark("|", property.Enum)
		if property.Items != nil {
			marks += enumMark("[]|", property.Items.Schema.Enum)
		}
		if property.AdditionalProperties != nil {
			marks += enumMark("{}|", property.AdditionalProperties.Schema.Enum)
		}
		strategy, _ := property.Extensions.GetString("x-kubernetes-patch-strategy")
		if strings.Contains(strategy, "retainKeys") {
			marks += "~"
		}
		if marks != "" {
			line += " " + field + marks
		}
	}
	return line + unionMark(schema)
}

// unionMark is the discriminator of a union and its fields.
func unionMark(schema spec.Schema) string {
	text, err := json.Marshal(schema.Extensions["x-kubernetes-unions"])
	check(err)
	var unions []struct {
		Discriminator string            `json:"discriminator"`
		Fields        map[string]string `json:"fields-to-discriminateBy"`
	}
	check(json.Unmarshal(text, &unions))
	mark := ""
	for _, union := range unions {
		fields := sets.List(sets.KeySet(union.Fields))
		for _, field := range fields {
			if strings.ToUpper(field[:1])+field[1:] != union.Fields[field] {
				check(fmt.Errorf("the field %s of a union has the value %s", field, union.Fields[field]))
			}
		}
		mark += " +" + union.Discriminator + ":" + strings.Join(fields, ",")
	}
	return mark
}

// enumMark is a mark and the values of an enum, with underscores in place of spaces.
func enumMark(mark string, values []interface{}) string {
	if len(values) == 0 {
		return ""
	}
	texts := make([]string, len(values))
	for i, value := range values {
		text := value.(string)
		if strings.ContainsAny(text, "_|~") {
			check(fmt.Errorf("the value %q of an enum is ambiguous in this format", text))
		}
		texts[i] = strings.ReplaceAll(text, " ", "_")
	}
	return mark + strings.Join(texts, "|")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
