package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/toolyard/toolyard/tool"
)

// errClosed is why a connection ended that we closed.
var errClosed = errors.New("the connection was closed")

// lost is the error of a call whose answer cannot come. sent says whether the
// server may have seen the request.
func lost(method string, sent bool, why error) *tool.Error {
	if known, ok := errors.AsType[*tool.Error](why); ok {
		e := *known
		e.Details = nil
		for k, v := range known.Details {
			e.WithDetail(k, v)
		}
		return mark(&e, sent)
	}
	e := tool.Errorf(tool.ConnectionError, "the connection to the server was lost during %s: %v", method, why)
	if sent {
		e.WithHint("The server may have done what was asked: look before you ask again.")
	} else {
		e.WithHint("The server has not seen the request: try again.")
	}
	return mark(e, sent)
}

// mark says on e whether the server may have seen the request.
func mark(e *tool.Error, sent bool) *tool.Error {
	e.Began = sent
	return e.WithDetail("sent", sent)
}

// ended is the error of a call whose caller's context has ended.
func ended(ctx context.Context, method string, sent bool) *tool.Error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, tool.ErrTimeout) {
		return mark(tool.Errorf(tool.TimeoutError, "the server did not answer %s in time: %v", method, cause).
			WithHint("Ask for less, or allow more time."), sent)
	}
	return mark(tool.Errorf(tool.Cancelled, "%s was cancelled: %v", method, cause), sent)
}

// undialled reports whether err says that no connection was made, so that the
// server has seen nothing.
func undialled(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}
