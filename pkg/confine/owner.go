package confine

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// deadAge is when a leftover of a process that cannot be looked at counts as
// dead. Living stages show themselves every [heartbeat].
const deadAge = time.Hour

// procState is what is known about a process.
type procState int

const (
	procUnknown procState = iota // it exists, or that cannot be found out
	procGone
	procKnown // it exists, and its start time is known
)

// Owner describes this process so that another one can tell whether it is
// still there:
//
//	<boot id>/<pid namespace> <pid> <start time>
//
// The words are opaque; one that the system does not reveal is "-".
func Owner() string {
	start, state := processStart(os.Getpid())
	if state != procKnown {
		start = "-"
	}
	return machine() + " " + strconv.Itoa(os.Getpid()) + " " + start
}

// OwnerDead says whether the process that [Owner] described has ended. On this
// machine and in this pid namespace that is so if the pid is gone or belongs to
// a process with another start time; of other processes nothing is known, and
// they count as dead if the last sign of life is older than an hour. Anything
// that is not an owner's text is judged by age too.
func OwnerDead(text string, age time.Duration) bool {
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != machine() || strings.HasPrefix(words[0], "-") {
		return age > deadAge
	}
	pid, err := strconv.Atoi(words[1])
	if err != nil || pid <= 0 {
		return age > deadAge
	}
	switch start, state := processStart(pid); state {
	case procGone:
		return true
	case procKnown:
		return start != words[2]
	}
	return false
}
