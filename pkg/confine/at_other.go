//go:build unix && !linux && !darwin

package confine

import "errors"

func renameFlags(int, string, int, string, renameMode) error { return errors.ErrUnsupported }

func diskFree(string) (int64, error) { return 0, errors.ErrUnsupported }
