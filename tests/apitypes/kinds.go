package main

import (
	"bytes"
	"math/rand"
	"reflect"
	"sort"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensions.AddToScheme(scheme))
	utilruntime.Must(apiregistration.AddToScheme(scheme))
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
	return append(preferred, schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"})
}

func kinds() []reflect.Type {
	var types []reflect.Type
	for _, kind := range preferredKinds() {
		object, err := scheme.New(kind)
		check(err)
		types = append(types, reflect.TypeOf(object))
	}
	return types
}

// eachRandomObject passes random objects of each kind to a function.
func eachRandomObject(seed int64, count int, each func(runtime.Object)) {
	codecs := serializer.NewCodecFactory(scheme)
	for _, kind := range preferredKinds() {
		filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), codecs)
		if kind.Kind == "CustomResourceDefinition" {
			// Schemas contain schemas.
			filler.MaxDepth(10)
		}
		for range count {
			object, err := scheme.New(kind)
			check(err)
			filler.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			each(object)
		}
	}
}

func encodeProtobuf(object runtime.Object) ([]byte, error) {
	var encoded bytes.Buffer
	err := protobuf.NewSerializer(scheme, scheme).Encode(object, &encoded)
	return encoded.Bytes(), err
}
