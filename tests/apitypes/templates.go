package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

type hashedTemplate struct {
	Template json.RawMessage `json:"template"`
	// Without a collision count, and with one.
	Hash     string `json:"hash"`
	Collided string `json:"collided"`
	// The revision of a StatefulSet with the template, and its hash.
	Data     json.RawMessage `json:"data"`
	Revision string          `json:"revision"`
}

const collisionCount = 7

// printTemplates prints random pod templates and their hashes.
func printTemplates(out *bufio.Writer, seed int64, count int) {
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(scheme))
	encoder := json.NewEncoder(out)
	for range count {
		object := &corev1.PodTemplate{}
		filler.Fill(object)
		clearTimes(&object.Template.ObjectMeta)
		for _, volume := range object.Template.Spec.Volumes {
			if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
				clearTimes(&volume.Ephemeral.VolumeClaimTemplate.ObjectMeta)
			}
		}
		template := stored(object).Template
		text, err := json.Marshal(template)
		check(err)
		data := revisionData(text)
		check(encoder.Encode(hashedTemplate{
			text, templateHash(template, nil), templateHash(template, []int32{collisionCount}), data, revisionHash(data),
		}))
	}
}

// clearTimes removes what nobody sets in a template.
func clearTimes(metadata *metav1.ObjectMeta) {
	metadata.CreationTimestamp = metav1.Time{}
	metadata.DeletionTimestamp = nil
	metadata.ManagedFields = nil
}

// stored is the object as controllers read it: decoded from protobuf.
func stored(object *corev1.PodTemplate) *corev1.PodTemplate {
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodTemplate"))
	encoded, err := encodeProtobuf(object)
	check(err)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme).UniversalDeserializer(), encoded)
	check(err)
	return decoded.(*corev1.PodTemplate)
}

// templateHash is what ComputeHash of k8s.io/kubernetes/pkg/controller returns.
func templateHash(template corev1.PodTemplateSpec, collisions []int32) string {
	hasher := fnv.New32a()
	fmt.Fprintf(hasher, "%v", dump.ForHash(template))
	for _, count := range collisions {
		bytes := make([]byte, 8)
		binary.LittleEndian.PutUint32(bytes, uint32(count))
		hasher.Write(bytes)
	}
	return utilrand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))
}

// revisionData is the patch that a StatefulSet's revision contains.
func revisionData(template []byte) []byte {
	fields := map[string]any{}
	check(json.Unmarshal(template, &fields))
	fields["$patch"] = "replace"
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	check(err)
	return data
}

// revisionHash is what HashControllerRevision of k8s.io/kubernetes/pkg/controller/history returns.
func revisionHash(data []byte) string {
	hasher := fnv.New32()
	hasher.Write(data)
	fmt.Fprint(hasher, collisionCount)
	return utilrand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))
}
