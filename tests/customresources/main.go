// Sends the requests of a file to an API server, and prints each with the response.
package main

import (
	"bytes"
	"crypto/tls"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

//go:embed requests.txt expressions.txt
var files embed.FS

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// How long the controllers of definitions may take, and what a server waits before it creates the first resource.
const settleTime = 2500 * time.Millisecond

type exchange struct {
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Type     string   `json:"type,omitempty"`
	Accept   string   `json:"accept,omitempty"`
	Body     string   `json:"body,omitempty"`
	Status   int      `json:"status"`
	Warnings []string `json:"warnings,omitempty"`
	Response any      `json:"response"`

	wait time.Duration
}

func main() {
	server := flag.String("server", "https://127.0.0.1:6443", "the URL of the server")
	token := flag.String("token", "admintoken", "the token of its administrator")
	file := flag.String("requests", "requests.txt", "the file of requests: requests.txt or expressions.txt")
	flag.Parse()
	requests, err := files.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	for _, paragraph := range strings.Split(string(requests), "\n\n") {
		one := parse(paragraph)
		if one == nil {
			continue
		}
		send(client, *server, *token, one)
		if err := output.Encode(one); err != nil {
			log.Fatal(err)
		}
		isDefinition := strings.HasPrefix(one.Path, definitions) && !strings.Contains(one.Path, "dryRun")
		if one.Method != "GET" && isDefinition && one.Status < 300 {
			time.Sleep(settleTime)
		}
		time.Sleep(one.wait)
	}
}

// parse reads a request: lines of comments, method and path, headers, body.
func parse(paragraph string) *exchange {
	var one *exchange
	var body []string
	for _, line := range strings.Split(paragraph, "\n") {
		switch name, value, _ := strings.Cut(line, ": "); {
		case strings.HasPrefix(line, "#") || line == "":
		case one == nil:
			method, path, _ := strings.Cut(line, " ")
			one = &exchange{Method: method, Path: path}
			if method != "GET" {
				one.Type = "application/json"
			}
		case len(body) == 0 && name == "Accept":
			one.Accept = value
		case len(body) == 0 && name == "Type":
			one.Type = value
		case len(body) == 0 && name == "Wait":
			seconds, err := strconv.Atoi(value)
			if err != nil {
				log.Fatal(err)
			}
			one.wait = time.Duration(seconds) * time.Second
		default:
			body = append(body, strings.TrimSpace(line))
		}
	}
	if one != nil {
		one.Body = strings.Join(body, " ")
	}
	return one
}

func send(client *http.Client, server, token string, one *exchange) {
	request, err := http.NewRequest(one.Method, server+one.Path, strings.NewReader(one.Body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("User-Agent", "tester/v1")
	if one.Type != "" {
		request.Header.Set("Content-Type", one.Type)
	}
	if one.Accept != "" {
		request.Header.Set("Accept", one.Accept)
	}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	one.Status = response.StatusCode
	for _, header := range response.Header.Values("Warning") {
		quoted := strings.TrimPrefix(header, "299 - ")
		warning, err := strconv.Unquote(quoted)
		if err != nil {
			log.Fatalf("%s: %v", header, err)
		}
		one.Warnings = append(one.Warnings, warning)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&one.Response); err != nil || decoder.More() {
		one.Response = string(text)
	}
	one.Response = normalized("", one.Response)
}

var (
	uids  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`)
	types = regexp.MustCompile(`selfType[0-9]+`)
	ages  = regexp.MustCompile(`^[0-9]+s$`)
)

// normalized replaces what differs between two runs: uids, times, versions.
func normalized(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "storageVersionHash")
		for key, inner := range value {
			value[key] = normalized(key, inner)
		}
		// A server visits the fields of an object in random order.
		if causes, ok := value["causes"].([]any); ok {
			sort.SliceStable(causes, func(i, j int) bool { return fmt.Sprint(causes[i]) < fmt.Sprint(causes[j]) })
		}
	case []any:
		for index, inner := range value {
			value[index] = normalized(name, inner)
		}
	case string:
		switch {
		case name == "resourceVersion":
			return "VERSION"
		case name == "cells" && ages.MatchString(value):
			return "AGE"
		}
		value = types.ReplaceAllString(uids.ReplaceAllString(value, "UID"), "selfType")
		return times.ReplaceAllString(value, "TIME")
	}
	return value
}
