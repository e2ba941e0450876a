package docker

// socketHint says who may use a pipe.
func socketHint(string) string {
	return "it is for administrators and members of the group docker-users"
}
