package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
)

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

func widgetDefinition() *unstructured.Unstructured {
	return object(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	})
}

func widget(name string) *unstructured.Unstructured {
	return object(map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"size": int64(3)},
	})
}

// A custom resource is defined, found by discovery, watched, written and deleted.
func checkCustomResources(ctx context.Context, c *clients) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := c.dynamic.Resource(definitions).Create(ctx, widgetDefinition(), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := waitUntil(ctx, "an established definition", func(ctx context.Context) (bool, error) {
		definition, err := c.dynamic.Resource(definitions).Get(ctx, "widgets.example.com", metav1.GetOptions{})
		return err == nil && hasCondition(definition, "Established"), err
	})
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.typed.Discovery()))
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"})
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	defer factory.Shutdown()
	defer cancel()
	informer := factory.ForResource(mapping.Resource)
	informer.Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	widgets := c.dynamic.Resource(mapping.Resource).Namespace(namespace)
	created, err := widgets.Create(ctx, widget("w"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if created.GetUID() == "" || created.GetGeneration() != 1 {
		return fmt.Errorf("the uid %q and generation %d of a new object", created.GetUID(), created.GetGeneration())
	}
	patched, err := widgets.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"size":4}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if patched.GetGeneration() != 2 {
		return fmt.Errorf("the generation after a change of the spec is %d", patched.GetGeneration())
	}
	if err := unstructured.SetNestedField(patched.Object, "good", "status", "state"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(patched.Object, int64(9), "spec", "size"); err != nil {
		return err
	}
	if _, err := widgets.UpdateStatus(ctx, patched, metav1.UpdateOptions{}); err != nil {
		return err
	}
	err = waitUntil(ctx, "the status in the cache", func(context.Context) (bool, error) {
		cached, err := informer.Lister().ByNamespace(namespace).Get("w")
		if err != nil {
			return false, nil
		}
		content := cached.(*unstructured.Unstructured).Object
		state, _, _ := unstructured.NestedString(content, "status", "state")
		size, _, _ := unstructured.NestedInt64(content, "spec", "size")
		if state == "good" && size != 4 {
			return false, fmt.Errorf("an update of the status changed the spec: %v", content)
		}
		return state == "good", nil
	})
	if err != nil {
		return err
	}
	if err := c.dynamic.Resource(definitions).Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return waitUntil(ctx, "a resource that is not served", func(ctx context.Context) (bool, error) {
		_, err := widgets.List(ctx, metav1.ListOptions{})
		return err != nil, nil
	})
}

func hasCondition(of *unstructured.Unstructured, conditionType string) bool {
	conditions, _, _ := unstructured.NestedSlice(of.Object, "status", "conditions")
	for _, one := range conditions {
		condition, isMap := one.(map[string]any)
		if isMap && condition["type"] == conditionType && condition["status"] == "True" {
			return true
		}
	}
	return false
}
