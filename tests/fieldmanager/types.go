package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensions.AddToScheme(scheme))
	utilruntime.Must(apiregistration.AddToScheme(scheme))
}

const referencePrefix = "#/components/schemas/"

// definitions are the schemas of all types of the API, by the name that they have in OpenAPI documents.
func definitions() map[string]common.OpenAPIDefinition {
	return openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef(referencePrefix + name)
	})
}

// notServed are versions that client-go still knows.
var notServed = map[string]bool{"extensions/v1beta1": true, "apps/v1beta1": true, "apps/v1beta2": true}

// preferredKinds are the kinds of every group, each in the version that the group prefers, sorted.
func preferredKinds() []schema.GroupVersionKind {
	seen := map[schema.GroupKind]bool{}
	var preferred []schema.GroupVersionKind
	versions := scheme.PrioritizedVersionsAllGroups()
	sort.SliceStable(versions, func(i, j int) bool {
		return version.CompareKubeAwareVersionStrings(versions[i].Version, versions[j].Version) > 0
	})
	for _, version := range versions {
		if notServed[version.String()] {
			continue
		}
		known := scheme.KnownTypes(version)
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			kind := version.WithKind(name)
			// Not lists and options.
			_, isObject := reflect.New(known[name]).Interface().(metav1.Object)
			if !seen[kind.GroupKind()] && isObject {
				seen[kind.GroupKind()] = true
				preferred = append(preferred, kind)
			}
		}
	}
	return preferred
}

// modelName is the name of a kind's type in OpenAPI documents.
func modelName(kind schema.GroupVersionKind) string {
	object, err := scheme.New(kind)
	check(err)
	return util.GetCanonicalTypeName(object)
}

// printMergeTypes prints each type that a preferred kind contains, with the words that say how it is merged.
func printMergeTypes(out *bufio.Writer) {
	schemas := definitions()
	lines := map[string]string{}
	for _, kind := range preferredKinds() {
		addMergeTypes(schemas, lines, modelName(kind))
	}
	names := make([]string, 0, len(lines))
	for name := range lines {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(out, "%s%s\n", name, lines[name])
	}
}

// typeName is the group and the name of a type: core.PodSpec.
func typeName(model string) string {
	parts := strings.Split(model, ".")
	name, group := parts[len(parts)-1], parts[len(parts)-3]
	return group + "." + name
}

func addMergeTypes(schemas map[string]common.OpenAPIDefinition, lines map[string]string, model string) {
	definition, known := schemas[model]
	if !known {
		panic("no definition of " + model)
	}
	name := typeName(model)
	if _, isKnown := lines[name]; isKnown {
		return
	}
	lines[name] = ""
	line := ""
	if mapType, marked := definition.Schema.Extensions["x-kubernetes-map-type"]; marked {
		line += fmt.Sprint(" :", mapType)
	}
	fields := make([]string, 0)
	for field := range definition.Schema.Properties {
		fields = append(fields, field)
	}
	sort.Strings(fields)
	for _, field := range fields {
		property := definition.Schema.Properties[field]
		marks := ""
		if property.Default != nil {
			text, err := json.Marshal(property.Default)
			check(err)
			marks += "=" + string(text)
		}
		if listType, marked := property.Extensions["x-kubernetes-list-type"]; marked {
			marks += fmt.Sprint(":", listType)
			if keys, marked := property.Extensions["x-kubernetes-list-map-keys"]; marked {
				marks += strings.NewReplacer("[", "(", "]", ")", " ", ",").Replace(fmt.Sprint(keys))
			}
		}
		if mapType, marked := property.Extensions["x-kubernetes-map-type"]; marked {
			marks += fmt.Sprint(":", mapType)
		}
		if marks != "" {
			line += " " + field + marks
		}
	}
	lines[name] = line
	for _, dependency := range definition.Dependencies {
		addMergeTypes(schemas, lines, dependency)
	}
}
