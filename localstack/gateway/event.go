package gateway

import (
	"encoding/base64"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// Names of the API that is played, as events carry them.
const (
	accountID    = "000000000000"
	apiID        = "local"
	stage        = "$default"
	accessFormat = "02/Jan/2006:15:04:05 -0700" // of requestContext.time
)

// arrival is what is known of a request besides what it says.
type arrival struct {
	id       string
	source   string
	at       time.Time
	identity identity
}

// newEvent returns the event that API Gateway would send for r.
func newEvent(r *http.Request, body []byte, a arrival) events.APIGatewayV2HTTPRequest {
	path := decodedPath(r.URL)
	host := (&url.URL{Host: r.Host}).Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // an IPv6 address, as it stands in a URL
	}
	prefix, _, _ := strings.Cut(host, ".")
	event := events.APIGatewayV2HTTPRequest{
		Version:               "2.0",
		RouteKey:              RouteKey,
		RawPath:               path,
		RawQueryString:        r.URL.RawQuery,
		Cookies:               cookies(r.Header),
		Headers:               headers(r, a.source, len(body)),
		QueryStringParameters: queryParameters(r.URL),
		PathParameters:        map[string]string{"proxy": strings.TrimPrefix(path, PathPrefix)},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey:     RouteKey,
			AccountID:    accountID,
			APIID:        apiID,
			Stage:        stage,
			RequestID:    a.id,
			DomainName:   host,
			DomainPrefix: prefix,
			Time:         a.at.UTC().Format(accessFormat),
			TimeEpoch:    a.at.UnixMilli(),
			Authorizer: &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
				JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{
					Claims: a.identity.claims(),
					Scopes: a.identity.scopes,
				},
			},
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method:    r.Method,
				Path:      path,
				Protocol:  r.Proto,
				SourceIP:  a.source,
				UserAgent: r.UserAgent(),
			},
		},
	}
	event.Body, event.IsBase64Encoded = encodeBody(r.Header, body)
	return event
}

// decodedPath is the path as an HTTP API hands it on; see the package comment.
func decodedPath(u *url.URL) string {
	path, _, _ := strings.Cut(u.Path, "?")
	return path
}

// hopByHop are headers that concern one connection only.
var hopByHop = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-authenticate": true, "proxy-authorization": true,
	"proxy-connection": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
}

// headers joins what came more than once. Cookies have their own place in the event.
func headers(r *http.Request, source string, size int) map[string]string {
	out := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if !hopByHop[name] && name != "authorization" && name != "cookie" {
			out[name] = strings.Join(values, ",")
		}
	}
	if size > 0 {
		out["content-length"] = strconv.Itoa(size)
	}
	if earlier := out["x-forwarded-for"]; earlier != "" {
		source = earlier + ", " + source
	}
	out["x-forwarded-for"] = source
	out["x-forwarded-proto"] = "http"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		out["x-forwarded-port"] = port
	}
	return out
}

func cookies(h http.Header) []string {
	var out []string
	for _, line := range h.Values("Cookie") {
		for cookie := range strings.SplitSeq(line, ";") {
			if cookie = strings.TrimSpace(cookie); cookie != "" {
				out = append(out, cookie)
			}
		}
	}
	return out
}

// queryParameters decodes the query; repeated parameters are joined in order.
// What cannot be decoded is left to rawQueryString.
func queryParameters(u *url.URL) map[string]string {
	values := u.Query()
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for name, all := range values {
		out[name] = strings.Join(all, ",")
	}
	return out
}

// encodeBody hands text on as it is and everything else in base64.
func encodeBody(h http.Header, body []byte) (text string, isBase64 bool) {
	if len(body) == 0 {
		return "", false
	}
	if isText(h.Get("Content-Type")) && h.Get("Content-Encoding") == "" && utf8.Valid(body) {
		return string(body), false
	}
	return base64.StdEncoding.EncodeToString(body), true
}

func isText(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	return strings.HasPrefix(media, "text/") ||
		slices.Contains([]string{"application/json", "application/javascript", "application/xml"}, media)
}
