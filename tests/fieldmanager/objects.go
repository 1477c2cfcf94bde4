package main

import (
	"fmt"
	"math/rand"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// objectMaker makes random objects by the schemas of their types.
type objectMaker struct {
	schemas map[string]common.OpenAPIDefinition
	random  *rand.Rand
}

const maxDepth = 7

func (m *objectMaker) object(kind schema.GroupVersionKind) map[string]any {
	definition := m.schemas[modelName(kind)].Schema
	object := m.fields(definition.Properties, 0)
	object["apiVersion"], object["kind"] = kind.GroupVersion().String(), kind.Kind
	metadata, isMap := object["metadata"].(map[string]any)
	if !isMap {
		metadata = map[string]any{}
	}
	for _, name := range []string{"managedFields", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"} {
		delete(metadata, name)
	}
	metadata["name"], metadata["uid"] = "x", "1"
	object["metadata"] = metadata
	return object
}

// fields are some of the fields of a struct.
func (m *objectMaker) fields(properties map[string]spec.Schema, depth int) map[string]any {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	sort.Strings(names)
	fields := map[string]any{}
	// Structs with many fields get a few of them.
	chance := 2.5 / float64(len(names)+1)
	if depth == 0 {
		chance = 0.8
	}
	for _, name := range names {
		if depth < maxDepth && m.random.Float64() < chance {
			fields[name] = m.value(properties[name], depth+1)
		}
	}
	if m.random.Intn(400) == 0 {
		fields["undeclared"] = "x"
	}
	return fields
}

func (m *objectMaker) value(property spec.Schema, depth int) any {
	if m.random.Intn(300) == 0 {
		return nil
	}
	if m.random.Intn(500) == 0 {
		return []any{int64(7), "seven", true, map[string]any{"a": "b"}, []any{"a"}}[m.random.Intn(5)]
	}
	reference := property.Ref.String()
	if reference == "" && len(property.AllOf) == 1 {
		reference = property.AllOf[0].Ref.String()
	}
	if reference != "" {
		model := strings.TrimPrefix(reference, referencePrefix)
		definition := m.schemas[model].Schema
		switch {
		case strings.HasSuffix(model, ".Quantity"):
			return fmt.Sprint(m.random.Intn(3))
		case strings.HasSuffix(model, ".IntOrString"):
			return []any{int64(m.random.Intn(3)), "name"}[m.random.Intn(2)]
		case strings.HasSuffix(model, ".RawExtension"):
			return map[string]any{"a": m.text()}
		case len(definition.Type) > 0 && definition.Type[0] == "string":
			return "2026-01-01T00:00:00Z"
		}
		return m.fields(definition.Properties, depth)
	}
	typeName := ""
	if len(property.Type) > 0 {
		typeName = property.Type[0]
	}
	switch typeName {
	case "integer", "number":
		return int64(m.random.Intn(3))
	case "boolean":
		return m.random.Intn(2) == 0
	case "array":
		return m.list(property, depth)
	case "object":
		entries := map[string]any{}
		for range m.random.Intn(3) {
			if property.AdditionalProperties != nil && property.AdditionalProperties.Schema != nil {
				entries[m.text()] = m.value(*property.AdditionalProperties.Schema, depth+1)
			}
		}
		return entries
	default:
		return m.text()
	}
}

func (m *objectMaker) list(property spec.Schema, depth int) any {
	entries := []any{}
	keys, _ := property.Extensions["x-kubernetes-list-map-keys"].([]any)
	seen := map[string]bool{}
	for range m.random.Intn(4) {
		entry := m.value(*property.Items.Schema, depth+1)
		text := fmt.Sprint(entry)
		if fields, isMap := entry.(map[string]any); isMap && len(keys) > 0 {
			text = ""
			for _, key := range keys {
				name := key.(string)
				if _, isSet := fields[name]; !isSet && m.random.Intn(6) > 0 {
					definition := m.schemas[strings.TrimPrefix(itemReference(property), referencePrefix)].Schema
					fields[name] = m.value(definition.Properties[name], depth+1)
				}
				text += fmt.Sprint(fields[name], "/")
			}
		}
		if !seen[text] || m.random.Intn(20) == 0 {
			seen[text] = true
			entries = append(entries, entry)
		}
	}
	return entries
}

func itemReference(property spec.Schema) string {
	if reference := property.Items.Schema.Ref.String(); reference != "" {
		return reference
	}
	if len(property.Items.Schema.AllOf) == 1 {
		return property.Items.Schema.AllOf[0].Ref.String()
	}
	return ""
}

func (m *objectMaker) text() string {
	return string(rune('a' + m.random.Intn(4)))
}
