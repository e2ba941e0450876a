package script

import (
	"encoding/base64"
	"errors"
	"fmt"
)

var errSeek = errors.New("script: an input can only be read again from its start")

// Decode appends the bytes that base64 text stands for to dst. The text may be
// wrapped at any width with LF or CRLF, or not at all, and its padding may be
// missing; any other byte is an error that names its offset
// (agentscope-ai/agentscope-java#1860).
func Decode(dst, text []byte) ([]byte, error) {
	clean := make([]byte, 0, len(text))
	for i, c := range text {
		switch {
		case c == '\n' || c == '\r':
		case c == '=' || decodable(c):
			clean = append(clean, c)
		default:
			return dst, fmt.Errorf("base64: byte %q at offset %d", c, i)
		}
	}
	body := clean
	for len(body) > 0 && body[len(body)-1] == '=' && len(clean)-len(body) < 2 {
		body = body[:len(body)-1]
	}
	out, err := base64.RawStdEncoding.Strict().AppendDecode(dst, body)
	if err != nil {
		return dst, fmt.Errorf("base64: %w", err)
	}
	if pad := len(clean) - len(body); pad > 0 && len(clean)%4 != 0 {
		return dst, fmt.Errorf("base64: wrong padding at offset %d", len(text)-pad)
	}
	return out, nil
}

func decodable(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}
