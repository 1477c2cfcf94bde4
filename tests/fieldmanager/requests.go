package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"time"
)

// A request to an API server with its response.
type recordedRequest struct {
	// `PATCH /api/v1/namespaces/default/configmaps/a?fieldManager=one`
	Request string `json:"request"`
	Type    string `json:"type,omitempty"`
	Agent   string `json:"agent,omitempty"`
	// An object, or a text. `$uid` and `$version` stand for those of the last response with an object.
	Body json.RawMessage `json:"body,omitempty"`
	// Whether the response is left out.
	Unchecked bool     `json:"unchecked,omitempty"`
	Status    int      `json:"status,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Response  any      `json:"response,omitempty"`
}

// recordResponses sends the requests of a file to a server, and prints them with the responses.
func recordResponses(out *bufio.Writer, in io.Reader, server, token string) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	normalizer := &normalizer{versions: map[string]string{}}
	for lines.Scan() {
		var line recordedRequest
		check(json.Unmarshal(lines.Bytes(), &line))
		if path, isWait := strings.CutPrefix(line.Request, "WAIT "); isWait {
			waitFor(client, server+path, token)
		} else {
			line.send(client, server, token, normalizer)
		}
		check(encoder.Encode(line))
	}
	check(lines.Err())
}

// waitFor waits until a path is served: after its definition was created, that of a custom resource.
func waitFor(client *http.Client, url, token string) {
	for {
		request, err := http.NewRequest("GET", url, nil)
		check(err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		check(err)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *recordedRequest) send(client *http.Client, server, token string, normalizer *normalizer) {
	method, path, _ := strings.Cut(r.Request, " ")
	body := string(r.Body)
	var text string
	if json.Unmarshal(r.Body, &text) == nil {
		body = text
	}
	body = strings.NewReplacer("$uid", normalizer.uid, "$version", normalizer.version).Replace(body)
	request, err := http.NewRequest(method, server+path, strings.NewReader(body))
	check(err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	if r.Type != "" {
		request.Header.Set("Content-Type", r.Type)
	}
	request.Header.Set("User-Agent", r.Agent)
	response, err := client.Do(request)
	check(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	check(err)
	r.Status = response.StatusCode
	r.Warnings = nil
	for _, warning := range response.Header.Values("Warning") {
		r.Warnings = append(r.Warnings, strings.TrimPrefix(warning, "299 - "))
	}
	r.Response = nil
	if r.Unchecked {
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	check(decoder.Decode(&r.Response))
	r.Response = normalizer.normalize("", r.Response)
}

// A normalizer replaces what differs from run to run.
type normalizer struct {
	uid, version string
	versions     map[string]string
}

var timeText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)

func (n *normalizer) normalize(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for field, inner := range value {
			value[field] = n.normalize(field, inner)
		}
		// The order of several conflicts or errors is random.
		if message, isText := value["message"].(string); isText {
			lines := strings.Split(message, "\n")
			sort.Strings(lines[1:])
			value["message"] = strings.Join(lines, "\n")
		}
		return value
	case []any:
		for index, inner := range value {
			value[index] = n.normalize(name, inner)
		}
		// Sorted by time, manager and version, of which the first is not known, or in a random order.
		if name == "managedFields" || name == "causes" {
			sort.SliceStable(value, func(i, j int) bool { return sortText(value[i]) < sortText(value[j]) })
		}
		return value
	case string:
		switch {
		case name == "uid":
			n.uid = value
			return "uid"
		case name == "resourceVersion":
			n.version = value
			if _, known := n.versions[value]; !known {
				n.versions[value] = fmt.Sprint("v", len(n.versions)+1)
			}
			return n.versions[value]
		case name == "clusterIP" || name == "clusterIPs":
			return "address"
		case timeText.MatchString(value):
			return "time"
		}
	}
	return value
}

func sortText(entry any) string {
	fields, _ := entry.(map[string]any)
	return fmt.Sprint(fields["operation"], " ", fields["manager"], " ", fields["subresource"], " ", fields["apiVersion"], " ",
		fields["field"], " ", fields["message"])
}
