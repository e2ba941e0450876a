package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sbsync/sbsync/pkg/provider"
)

// apiError sorts what client-go answers into kinds.
func apiError(op string, err error) error {
	if ctxErr := contextError(err); ctxErr != nil {
		return ctxErr
	}
	e := &provider.Error{Kind: provider.Other, Op: op, Err: err}
	var refused *upgradeError
	switch {
	case errors.As(err, &refused):
		e.Kind, e.Hint = provider.Unreachable, "something between here and the pod does not carry this exec protocol; exec_protocol: websocket or spdy chooses the other"
	case apierrors.IsForbidden(err):
		e.Kind, e.Hint = provider.Unauthorized, roleHint(err)
	case apierrors.IsUnauthorized(err):
		e.Kind, e.Hint = provider.Unauthorized, "the cluster does not know these credentials; log in again"
	case apierrors.IsNotFound(err):
		e.Kind = provider.NotFound
	case apierrors.IsTooManyRequests(err):
		e.Kind = provider.RateLimited
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			e.RetryAfter = time.Duration(seconds) * time.Second
		}
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		e.Kind = provider.Usage
	case isCertificate(err):
		e.Kind, e.Hint = provider.Unauthorized, "the server's certificate is not the one that the kubeconfig trusts; check certificate-authority and server there"
	case strings.Contains(err.Error(), "getting credentials"):
		e.Kind, e.Hint = provider.Unauthorized, "the credential plugin that the kubeconfig names failed"
	case isStatus(err):
		if apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
			e.Kind = provider.Unreachable
		}
	default:
		e.Kind, e.Hint = provider.Unreachable, "the API server does not answer; is the right context chosen, and the cluster up?"
	}
	return e
}

// denied finds verb and resource in an API server's message.
var denied = regexp.MustCompile(`cannot (\w+) resource "([^"]+)"`)

// roleHint says what to ask for.
func roleHint(err error) string {
	const all = "sbsync needs get on pods, and create and get on pods/exec"
	if m := denied.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Sprintf("ask for a role that allows %q on %q in this namespace; %s", m[1], m[2], all)
	}
	return all
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func isCertificate(err error) bool {
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &verify) || errors.As(err, &unknown) || errors.As(err, &host) || strings.Contains(err.Error(), "x509: ")
}

func contextError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lost is the error of an exec whose command's fate is not known.
func lost(op string, cause error) error {
	return &provider.Error{Kind: provider.Unreachable, Op: op, Err: fmt.Errorf("the connection was lost before the command's exit code arrived: %w", cause)}
}
