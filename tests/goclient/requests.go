package main

import (
	"net/http"
	"net/url"
	"sync"
)

// The URLs of all requests.
type requestLog struct {
	mutex sync.Mutex
	urls  []*url.URL
}

func (log *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		log.mutex.Lock()
		log.urls = append(log.urls, request.URL)
		log.mutex.Unlock()
		return next.RoundTrip(request)
	})
}

// The number of requests for a path with a query parameter.
func (log *requestLog) count(path, parameter, value string) int {
	log.mutex.Lock()
	defer log.mutex.Unlock()
	count := 0
	for _, one := range log.urls {
		if one.Path == path && one.Query().Get(parameter) == value {
			count++
		}
	}
	return count
}

type roundTripper func(*http.Request) (*http.Response, error)

func (function roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return function(request)
}
