package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	smdtyped "sigs.k8s.io/structured-merge-diff/v6/typed"
)

// manyFields are kinds with all sorts of lists and maps.
var manyFields = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Node"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
}

// A write of an object by a manager, with what the field managers make of it.
type writeCase struct {
	Kind    string         `json:"kind"`
	Verb    string         `json:"verb"`
	Manager string         `json:"manager"`
	Force   bool           `json:"force,omitempty"`
	Live    map[string]any `json:"live,omitempty"`
	Request map[string]any `json:"request"`
	Result  map[string]any `json:"result,omitempty"`
	// Sorted lines, and of conflicts the fields.
	Error  []string `json:"error,omitempty"`
	Causes []string `json:"causes,omitempty"`
}

// printCases prints random writes of count objects of each kind.
func printCases(out *bufio.Writer, seed int64, count int) {
	schemas := definitions()
	converter := typeConverter(schemas)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for index, kind := range manyFields {
		for number := range count {
			random := rand.New(rand.NewSource(seed + int64(1000*index+number)))
			printWrites(encoder, &objectMaker{schemas: schemas, random: random}, converter, kind)
		}
	}
}

func typeConverter(schemas map[string]common.OpenAPIDefinition) managedfields.TypeConverter {
	names := map[string]schema.GroupVersionKind{}
	for _, kind := range preferredKinds() {
		names[modelName(kind)] = kind
	}
	models := make([]string, 0, len(names))
	for name := range names {
		models = append(models, name)
	}
	config := &common.OpenAPIV3Config{
		GetDefinitions: openapi.GetOpenAPIDefinitions,
		GetDefinitionName: func(name string) (string, spec.Extensions) {
			kind, isKind := names[name]
			if !isKind {
				return name, nil
			}
			extension := map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}
			return name, spec.Extensions{"x-kubernetes-group-version-kind": []any{extension}}
		},
	}
	built, err := builder3.BuildOpenAPIDefinitionsForResources(config, models...)
	check(err)
	converter, err := managedfields.NewTypeConverter(built, false)
	check(err)
	return converter
}

// sameVersion neither converts nor sets defaults.
type sameVersion struct{}

func (sameVersion) Convert(in, out, context any) error { return fmt.Errorf("not converted") }
func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (sameVersion) Default(runtime.Object) {}
func (sameVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object, err := scheme.New(kind)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(kind)
	}
	return object, err
}

func printWrites(
	encoder *json.Encoder, maker *objectMaker, converter managedfields.TypeConverter, kind schema.GroupVersionKind,
) {
	manager, err := managedfields.NewDefaultFieldManager(
		converter, sameVersion{}, sameVersion{}, sameVersion{}, kind, kind.GroupVersion(), "", nil)
	check(err)
	random := maker.random
	var live map[string]any
	configs := map[string]map[string]any{}
	managers := []string{"one", "two", "kubectl"}
	for range 4 + random.Intn(5) {
		line := writeCase{Kind: kind.Kind, Live: live, Manager: managers[random.Intn(len(managers))]}
		var current runtime.Object
		if live == nil {
			current, err = sameVersion{}.New(kind)
			check(err)
		} else {
			current = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(live)}
		}
		var result runtime.Object
		if random.Intn(5) < 3 {
			line.Verb, line.Force = "apply", random.Intn(3) > 0
			config := maker.object(kind)
			if last := configs[line.Manager]; last != nil {
				config = mix(random, last, config)
			}
			configs[line.Manager] = config
			line.Request = runtime.DeepCopyJSON(config)
			result, err = manager.Apply(current, &unstructured.Unstructured{Object: config}, line.Manager, line.Force)
		} else {
			line.Verb = "update"
			request := maker.object(kind)
			if live != nil {
				request = mix(random, live, request)
				if last := configs["kubectl"]; last != nil && random.Intn(3) == 0 {
					setLastApplied(request, last)
				}
				if random.Intn(4) > 0 {
					request["metadata"].(map[string]any)["managedFields"] = live["metadata"].(map[string]any)["managedFields"]
				}
			}
			request = runtime.DeepCopyJSON(request)
			line.Request = runtime.DeepCopyJSON(request)
			result, err = manager.Update(current, &unstructured.Unstructured{Object: request}, line.Manager)
		}
		if err != nil {
			line.Error = strings.Split(err.Error(), "\n")
			sort.Strings(line.Error)
			if status, isStatus := err.(*errors.StatusError); isStatus && status.ErrStatus.Details != nil {
				for _, cause := range status.ErrStatus.Details.Causes {
					line.Causes = append(line.Causes, cause.Field+" "+cause.Message)
				}
				sort.Strings(line.Causes)
			}
			check(encoder.Encode(line))
			continue
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(result)
		check(err)
		line.Result = object
		check(encoder.Encode(line))
		live = withoutNulls(runtime.DeepCopyJSON(object)).(map[string]any)
		if random.Intn(12) == 0 {
			delete(live["metadata"].(map[string]any), "managedFields")
		}
		// Such an object would not be decoded.
		typed := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(live)}
		if _, err := converter.ObjectToTyped(typed, smdtyped.AllowDuplicates); err != nil {
			return
		}
	}
}

// setLastApplied sets the annotation of client-side apply.
func setLastApplied(object, config map[string]any) {
	metadata := object["metadata"].(map[string]any)
	annotations, isMap := metadata["annotations"].(map[string]any)
	if !isMap {
		annotations = map[string]any{}
	}
	text, err := json.Marshal(config)
	check(err)
	annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(text)
	metadata["annotations"] = annotations
}

// withoutNulls is a value as it looks after a Go type has read and written it.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
			} else {
				value[name] = withoutNulls(field)
			}
		}
	case []any:
		for index, entry := range value {
			value[index] = withoutNulls(entry)
		}
	}
	return value
}

// mix is an object with some parts of each of two.
func mix(random *rand.Rand, left, right map[string]any) map[string]any {
	mixed := map[string]any{}
	for _, name := range sortedNames(left, right) {
		inLeft, inRight := left[name], right[name]
		leftMap, leftIsMap := inLeft.(map[string]any)
		rightMap, rightIsMap := inRight.(map[string]any)
		switch {
		case name == "apiVersion" || name == "kind" || name == "name" || name == "uid":
			mixed[name] = inLeft
			if inLeft == nil {
				mixed[name] = inRight
			}
		case leftIsMap && rightIsMap:
			mixed[name] = mix(random, leftMap, rightMap)
		case random.Intn(4) > 0 && inLeft != nil:
			mixed[name] = inLeft
		case inRight != nil && random.Intn(2) > 0:
			mixed[name] = inRight
		}
	}
	return runtime.DeepCopyJSON(mixed)
}

func sortedNames(maps ...map[string]any) []string {
	seen := map[string]bool{}
	var names []string
	for _, fields := range maps {
		for name := range fields {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	sort.Strings(names)
	return names
}
