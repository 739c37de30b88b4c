package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/onceward/onceward/internal/operator"
	"github.com/onceward/onceward/internal/operator/operatorhttp"
)

// The claims that identity is read from. Without a tenant claim the identity
// belongs to the tenant "", the only one of a deployment without tenants.
const (
	claimActor  = "sub"
	claimTenant = "custom:tenant"
	claimScopes = "scope"
)

var errEvent = errors.New("operator: not an event of an HTTP API, payload format 2.0")

// behindGateway serves api to events. It is our own adapter since the usual one
// takes rawPath for encoded, splits every header at its commas and prints to the
// log by itself.
func behindGateway(api http.Handler, log *slog.Logger) function {
	return func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		request, err := requestOf(ctx, event)
		if err != nil {
			return events.APIGatewayV2HTTPResponse{}, err
		}
		answer := &answer{header: http.Header{}}
		api.ServeHTTP(answer, request)
		log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("request_id", event.RequestContext.RequestID),
			slog.String("method", request.Method), slog.String("route", request.Pattern), slog.Int("status", answer.code()))
		return answer.response(), nil
	}
}

func requestOf(ctx context.Context, event events.APIGatewayV2HTTPRequest) (*http.Request, error) {
	if event.Version != "2.0" || event.RequestContext.HTTP.Method == "" {
		return nil, errEvent
	}
	target, body := targetOf(event), []byte(event.Body)
	if event.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(event.Body); err != nil {
			return nil, fmt.Errorf("%w: the body is not base64", errEvent)
		}
	}
	ctx = operatorhttp.WithIdentity(ctx, identityOf(event))
	request, err := http.NewRequestWithContext(ctx, event.RequestContext.HTTP.Method, "https://"+event.RequestContext.DomainName, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEvent, err)
	}
	request.URL.Path, request.URL.RawPath, request.URL.RawQuery = target.Path, target.RawPath, event.RawQueryString
	request.RequestURI = request.URL.RequestURI()
	for name, value := range event.Headers {
		request.Header.Set(name, value) // several of one name are joined by commas already
	}
	return request, nil
}

// targetOf returns the path without the stage. An HTTP API hands rawPath on
// decoded, function URLs and other fronts encoded; no key holds a percent sign,
// so a path with one is encoded.
func targetOf(event events.APIGatewayV2HTTPRequest) *url.URL {
	path := event.RawPath
	if stage := event.RequestContext.Stage; stage != "" && stage != "$default" {
		if rest, ok := strings.CutPrefix(path, "/"+stage); ok && strings.HasPrefix(rest, "/") {
			path = rest
		}
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	target := &url.URL{Path: path}
	if decoded, err := url.PathUnescape(path); err == nil && decoded != path {
		target.Path, target.RawPath = decoded, path
	}
	return target
}

// identityOf reads the authorizer's claims, and nothing else.
func identityOf(event events.APIGatewayV2HTTPRequest) operator.Identity {
	authorizer := event.RequestContext.Authorizer
	if authorizer == nil || authorizer.JWT == nil {
		return operator.Identity{}
	}
	claims := authorizer.JWT.Claims
	return operator.Identity{Tenant: claims[claimTenant], Actor: claims[claimActor], Scopes: strings.Fields(claims[claimScopes])}
}

// answer is a response that is being written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter]; the first status counts.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

func (a *answer) response() events.APIGatewayV2HTTPResponse {
	headers := map[string]string{"cache-control": "no-store"}
	for name, values := range a.header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return events.APIGatewayV2HTTPResponse{StatusCode: a.code(), Headers: headers, Body: a.body.String()}
}
