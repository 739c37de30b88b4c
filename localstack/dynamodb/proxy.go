package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// NewProxy returns a handler that passes requests on to the engine at an
// endpoint, such as [Engine.Endpoint] or one that the user runs. Each request
// is sent at most once: where the engine's answer is lost, so is the client's
// (503), and only the client may decide to ask again. A wrong endpoint is
// refused.
func NewProxy(endpoint string) (http.Handler, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("dynamodb: endpoint: %w", err)
	}
	if (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return nil, fmt.Errorf("dynamodb: endpoint %q must be http://host:port or https://host:port", endpoint)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			// net/http takes a request with such a header for one that it may send again.
			r.Out.Header.Del("Idempotency-Key")
			r.Out.Header.Del("X-Idempotency-Key")
		},
		Transport: newTransport(),
		ErrorLog:  log.New(io.Discard, "", 0), // the client is told instead
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler) // the client is gone
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w,
				`{"__type":"com.amazonaws.dynamodb.v20120810#ServiceUnavailable","message":"the local engine does not answer"}`)
		},
	}, nil
}

// newTransport connects directly whatever the environment says of proxies, and
// leaves bodies as they are.
func newTransport() *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}
}
