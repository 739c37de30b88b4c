package stepfunctions

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// LambdaInvoker calls functions through the Lambda API.
type LambdaInvoker struct {
	client     *lambda.Client
	connection *http.Client
}

var (
	_           Invoker = (*LambdaInvoker)(nil)
	errEndpoint         = errors.New("stepfunctions: an endpoint, a region and credentials are required")
)

// NewLambdaInvoker returns an Invoker for the Lambda API at endpoint, such as
// http://127.0.0.1:4566. It makes one attempt for each call and sets no time
// limit of its own, so that no call is sent twice and none is given up before
// its function ends.
func NewLambdaInvoker(endpoint, region string, credentials aws.CredentialsProvider) (*LambdaInvoker, error) {
	if endpoint == "" || region == "" || credentials == nil {
		return nil, errEndpoint
	}
	connection := &http.Client{Transport: awshttp.NewBuildableClient().GetTransport()}
	client := lambda.New(lambda.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       region,
		Credentials:  credentials,
		Retryer:      aws.NopRetryer{},
		HTTPClient:   connection,
	})
	return &LambdaInvoker{client: client, connection: connection}, nil
}

// Close drops the connections that no call is using.
func (l *LambdaInvoker) Close() { l.connection.CloseIdleConnections() }

// Invoke calls the function once and waits for its answer. An error code X of
// the API becomes Lambda.X; an answer that does not come, or can't be read,
// becomes Lambda.SdkClientException: the function may have run.
func (l *LambdaInvoker) Invoke(ctx context.Context, call Invocation) (Invoked, error) {
	in := &lambda.InvokeInput{FunctionName: aws.String(call.Function), Payload: call.Payload}
	if call.Qualifier != "" {
		in.Qualifier = aws.String(call.Qualifier)
	}
	var header http.Header
	out, err := l.client.Invoke(ctx, in, func(o *lambda.Options) {
		o.APIOptions = append(o.APIOptions, keepHeader(&header))
	})
	if err != nil {
		return Invoked{}, invokeError(err)
	}
	requestID := header.Get("X-Amzn-Requestid")
	return Invoked{
		StatusCode: int(out.StatusCode), ExecutedVersion: aws.ToString(out.ExecutedVersion), Payload: out.Payload,
		FunctionError: aws.ToString(out.FunctionError), Header: header, RequestID: requestID,
	}, nil
}

// keepHeader copies the header of the answer, which the SDK does not return.
func keepHeader(into *http.Header) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("KeepHeader",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				out, metadata, err := next.HandleDeserialize(ctx, in)
				if response, ok := out.RawResponse.(*smithyhttp.Response); ok && response != nil {
					*into = response.Header.Clone()
				}
				return out, metadata, err
			}), middleware.Before)
	}
}

// invokeError names an error of the SDK as Step Functions does.
func invokeError(err error) error {
	response, answered := errors.AsType[*awshttp.ResponseError](err)
	known, isAPI := errors.AsType[smithy.APIError](err)
	switch {
	case answered && response.HTTPStatusCode() >= http.StatusBadRequest && (!isAPI || known.ErrorCode() == "" || known.ErrorCode() == "UnknownError"):
		return &InvokeError{Name: ErrorLambdaService, Cause: err.Error(), Err: err}
	case !isAPI || !answered:
		return &InvokeError{Name: ErrorSdkClient, Cause: "Unable to execute HTTP request: " + err.Error(), Err: err}
	}
	cause := fmt.Sprintf("%s (Service: AWSLambda; Status Code: %d; Error Code: %s; Request ID: %s; Proxy: null)",
		known.ErrorMessage(), response.HTTPStatusCode(), known.ErrorCode(), response.ServiceRequestID())
	return &InvokeError{Name: "Lambda." + known.ErrorCode(), Cause: cause, Err: err}
}
